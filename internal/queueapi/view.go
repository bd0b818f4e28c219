package queueapi

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"deadletter.dev/deadletter/internal/message"
)

// payloadEncoding says how the bytes of a payload are written as a JSON string.
type payloadEncoding string

const (
	encodingUTF8   payloadEncoding = "utf-8"
	encodingBase64 payloadEncoding = "base64"
)

// encodePayload writes bytes as UTF-8 when they are, else as base64.
func encodePayload(payload []byte) (string, payloadEncoding) {
	if utf8.Valid(payload) {
		return string(payload), encodingUTF8
	}
	return base64.StdEncoding.EncodeToString(payload), encodingBase64
}

// preview is the payload that a list shows of a message: all of it, or the start that the store returned, cut at a
// character boundary where there is one, so that text stays text.
func preview(m *message.Message) (shown []byte, cut bool) {
	if len(m.Payload) == m.PayloadSize || len(m.Payload) < utf8.UTFMax {
		return m.Payload, len(m.Payload) < m.PayloadSize
	}
	shown = m.Payload
	for back := 1; back < utf8.UTFMax; back++ {
		if start := len(shown) - back; utf8.RuneStart(shown[start]) {
			if !utf8.FullRune(shown[start:]) {
				return shown[:start], true
			}
			break
		}
	}
	return shown, true
}

// stateJSON is a message without its contents.
type stateJSON struct {
	ID             int64          `json:"id"`
	Queue          string         `json:"queue"`
	Status         message.Status `json:"status"`
	RetryCount     int            `json:"retry_count"`
	MaxRetries     int            `json:"max_retries"`
	DeliveryCount  int            `json:"delivery_count"`
	ReplayCount    int            `json:"replay_count"`
	RetryAfter     *time.Time     `json:"retry_after"`
	LastError      *string        `json:"last_error"`
	LastFailure    *failureJSON   `json:"last_failure"`
	LeaseToken     string         `json:"lease_token,omitempty"`
	LeaseExpiresAt *time.Time     `json:"lease_expires_at"`
	FirstFailureAt *time.Time     `json:"first_failure_at"`
	DeadAt         *time.Time     `json:"dead_at"`
	CreatedAt      time.Time      `json:"created_at"`
	UpdatedAt      time.Time      `json:"updated_at"`
}

// messageJSON is a message.
type messageJSON struct {
	stateJSON

	Payload         string          `json:"payload"`
	PayloadEncoding payloadEncoding `json:"payload_encoding"`
	PayloadSize     int             `json:"payload_size"`
	// PayloadTruncated is set in lists only, where long payloads are cut.
	PayloadTruncated bool         `json:"payload_truncated,omitempty"`
	Headers          []headerJSON `json:"headers"`
}

type headerJSON struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type consumerJSON struct {
	Instance string `json:"instance"`
	Version  string `json:"version"`
}

// failureJSON is a failure without its stack trace, which the dead letter shows.
type failureJSON struct {
	Reason      string           `json:"reason"`
	Category    message.Category `json:"category"`
	Fingerprint string           `json:"fingerprint"`
	ErrorClass  string           `json:"error_class"`
	Consumer    consumerJSON     `json:"consumer"`
	At          time.Time        `json:"at"`
}

type messagesJSON struct {
	Messages []messageJSON `json:"messages"`
}

func newStateJSON(m *message.Message) stateJSON {
	state := stateJSON{
		ID:             m.ID,
		Queue:          m.Queue,
		Status:         m.Status,
		RetryCount:     m.RetryCount,
		MaxRetries:     m.MaxRetries,
		DeliveryCount:  m.DeliveryCount,
		ReplayCount:    m.ReplayCount,
		RetryAfter:     utcOrNil(m.RetryAfter),
		FirstFailureAt: utcOrNil(m.FirstFailureAt),
		DeadAt:         utcOrNil(m.DeadAt),
		CreatedAt:      m.CreatedAt.UTC(),
		UpdatedAt:      m.UpdatedAt.UTC(),
	}
	if m.Lease != nil {
		state.LeaseExpiresAt = utcOrNil(&m.Lease.ExpiresAt)
	}
	if m.LastFailure != nil {
		state.LastError = &m.LastFailure.Reason
		failure := newFailureJSON(m.LastFailure)
		state.LastFailure = &failure
	}
	return state
}

func newMessageJSON(m *message.Message) messageJSON {
	view := messageJSON{stateJSON: newStateJSON(m), PayloadSize: m.PayloadSize, Headers: newHeadersJSON(m.Headers)}
	view.Payload, view.PayloadEncoding = encodePayload(m.Payload)
	return view
}

// newClaimedJSON is a message as its claimer sees it: the only view that shows the lease token.
func newClaimedJSON(m *message.Message) messageJSON {
	view := newMessageJSON(m)
	if m.Lease != nil {
		view.LeaseToken = m.Lease.Token
	}
	return view
}

// newListedJSON is a message as a list shows it: a long payload is cut.
func newListedJSON(m *message.Message) messageJSON {
	shown, cut := preview(m)
	listed := *m
	listed.Payload = shown
	view := newMessageJSON(&listed)
	view.PayloadTruncated = cut
	return view
}

func newMessagesJSON(messages []message.Message) []messageJSON {
	views := make([]messageJSON, len(messages))
	for i := range messages {
		views[i] = newMessageJSON(&messages[i])
	}
	return views
}

func newHeadersJSON(headers []message.Header) []headerJSON {
	views := make([]headerJSON, len(headers))
	for i, header := range headers {
		views[i] = headerJSON(header)
	}
	return views
}

func newFailureJSON(f *message.Failure) failureJSON {
	return failureJSON{
		Reason: f.Reason, Category: f.Category, Fingerprint: f.Fingerprint, ErrorClass: f.ErrorClass,
		Consumer: consumerJSON(f.Consumer), At: f.At.UTC(),
	}
}

func utcOrNil(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	utc := at.UTC()
	return &utc
}
