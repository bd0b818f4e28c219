package client

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is the state of a message.
type Status string

const (
	// Pending messages are ready, or wait until RetryAfter.
	Pending Status = "pending"
	// Processing messages are held by a worker.
	Processing Status = "processing"
	// Succeeded messages are done.
	Succeeded Status = "succeeded"
	// Dead messages are dead letters.
	Dead Status = "dead"
)

// Category is a kind of failure. Besides the ones below, any name of at most 64 bytes is a category.
type Category string

const (
	// Validation is a message that the worker rejects as malformed.
	Validation Category = "VALIDATION"
	// Timeout is work, or a lease, that ran out of time.
	Timeout Category = "TIMEOUT"
	// Auth is a refused credential or permission.
	Auth Category = "AUTH"
	// External is a dependency that failed.
	External Category = "EXTERNAL"
	// Poison is a message that was delivered too often, such as one that kills its workers.
	Poison Category = "POISON"
	// Expired is a message whose time to live passed.
	Expired Category = "EXPIRED"
	// Overflow is a message that its queue had no room for.
	Overflow Category = "OVERFLOW"
	// Unknown is everything else.
	Unknown Category = "UNKNOWN"
)

// Header is a name and a value that travel with a payload. Names are case-sensitive.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Consumer says who works: free text of at most 256 bytes each.
type Consumer struct {
	// Instance tells workers apart, such as a pod's name.
	Instance string `json:"instance,omitempty"`
	// Version is the release of the worker's code.
	Version string `json:"version,omitempty"`
}

// Message is a message as it was when the API answered. Times that do not apply are zero.
type Message struct {
	// ID is unique in the Broker.
	ID int64 `json:"id"`
	// Queue is the canonical name of the queue.
	Queue string `json:"queue"`
	// Payload is, byte for byte, what was enqueued. In lists it is cut after 64 KiB, and the results of batches have none.
	Payload []byte `json:"-"`
	// PayloadSize is the size of the whole payload in bytes.
	PayloadSize int `json:"payload_size"`
	// PayloadTruncated says that Payload is cut.
	PayloadTruncated bool `json:"payload_truncated,omitempty"`
	// Headers are in order, duplicates included.
	Headers []Header `json:"headers"`
	Status  Status   `json:"status"`
	// Priority is from 0 to 3, the highest.
	Priority int `json:"priority"`
	// GroupKey names the group that the message is ordered in; empty for none.
	GroupKey string `json:"group_key,omitempty"`
	// RetryCount counts failures since enqueue or replay; at MaxRetries the message is dead.
	RetryCount int `json:"retry_count"`
	MaxRetries int `json:"max_retries"`
	// DeliveryCount counts claims since enqueue or replay, but for those that were released.
	DeliveryCount int `json:"delivery_count"`
	// ReplayCount is how often the message came back from being dead.
	ReplayCount int `json:"replay_count"`
	// RetryAfter is when a pending message becomes ready; zero when it is.
	RetryAfter time.Time `json:"retry_after,omitzero"`
	// ExpiresAt is when the message dies unless it succeeds or is being processed then; zero for never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// LastError is the reason of the last failure since enqueue or replay, and LastFailure all of it.
	LastError   string   `json:"last_error,omitempty"`
	LastFailure *Failure `json:"last_failure,omitempty"`
	// LeaseToken proves the hold. Only claimed messages have one.
	LeaseToken string `json:"lease_token,omitempty"`
	// LeaseExpiresAt is when the hold ends.
	LeaseExpiresAt time.Time `json:"lease_expires_at,omitzero"`
	// FirstFailureAt is the first failure ever, kept across replays.
	FirstFailureAt time.Time `json:"first_failure_at,omitzero"`
	DeadAt         time.Time `json:"dead_at,omitzero"`
	CreatedAt      time.Time `json:"created_at"`
	// UpdatedAt is when the state last changed.
	UpdatedAt time.Time `json:"updated_at"`
}

// Failure is the record of one failure.
type Failure struct {
	// Reason is the worker's error message.
	Reason   string   `json:"reason"`
	Category Category `json:"category"`
	// Fingerprint groups failures of one cause.
	Fingerprint string `json:"fingerprint"`
	// ErrorClass is the type of the error in the worker's language; empty when not given.
	ErrorClass string    `json:"error_class"`
	Consumer   Consumer  `json:"consumer"`
	At         time.Time `json:"at"`
}

// Header returns the value of the first header of this name, or "".
func (m Message) Header(name string) string {
	for _, h := range m.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Lease returns what proves the hold on a claimed message.
func (m Message) Lease() Lease { return Lease{Queue: m.Queue, ID: m.ID, Token: m.LeaseToken} }

// messageFields are the fields of a message whose JSON is that of the API as they are.
type messageFields Message

// UnmarshalJSON reads a message of the API.
func (m *Message) UnmarshalJSON(text []byte) error {
	var wire struct {
		*messageFields
		textPayload
	}
	wire.messageFields = (*messageFields)(m)
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	var err error
	m.Payload, err = wire.decode()
	return err
}

// MarshalJSON writes the message as the API does, without what does not apply.
func (m Message) MarshalJSON() ([]byte, error) {
	wire := struct {
		*messageFields
		textPayload
	}{(*messageFields)(&m), encodePayload(m.Payload)}
	return encode(wire)
}
