package message

import (
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxQueueNameBytes is the longest queue name, after normalisation.
const MaxQueueNameBytes = 255

// ErrQueueName is wrapped by every error of ParseQueueName.
var ErrQueueName = errors.New("invalid queue name")

// ParseQueueName returns the canonical (NFC) form of a queue name, or an error that says which rule it breaks: a name
// is non-empty UTF-8 of at most 255 bytes without control characters, and not "." or "..".
func ParseQueueName(raw string) (string, error) {
	switch {
	case raw == "":
		return "", fmt.Errorf("%w: must not be empty", ErrQueueName)
	case !utf8.ValidString(raw):
		return "", fmt.Errorf("%w: must be UTF-8", ErrQueueName)
	case raw == "." || raw == "..":
		return "", fmt.Errorf("%w: must not be '.' or '..'", ErrQueueName)
	}
	for _, r := range raw {
		if unicode.IsControl(r) {
			return "", fmt.Errorf("%w: must not contain control characters", ErrQueueName)
		}
	}
	name := norm.NFC.String(raw)
	if len(name) > MaxQueueNameBytes {
		return "", fmt.Errorf("%w: must be at most %d bytes", ErrQueueName, MaxQueueNameBytes)
	}
	return name, nil
}

// QueueState says whether a queue hands out messages.
type QueueState string

const (
	// Active hands out messages.
	Active QueueState = "Active"
	// Paused accepts messages and hands out none.
	Paused QueueState = "Paused"
)

// DeadExpiry says what happens to a dead letter whose retention has passed.
type DeadExpiry string

const (
	// ExpiryDelete removes it.
	ExpiryDelete DeadExpiry = "Delete"
	// ExpiryKeep keeps it for ever.
	ExpiryKeep DeadExpiry = "Keep"
)

// Retention says how long finished messages are kept.
type Retention struct {
	// Succeeded counts from success.
	Succeeded time.Duration
	// Dead counts from death, never from enqueue.
	Dead time.Duration
	// OnDeadExpiry says what happens when Dead has passed.
	OnDeadExpiry DeadExpiry
}

// Overflow says what becomes of a message that a full queue has no room for.
type Overflow string

const (
	// OverflowReject refuses it: the producer keeps it and tries again later.
	OverflowReject Overflow = "Reject"
	// OverflowDeadLetter accepts it as a dead letter, to be replayed when there is room.
	OverflowDeadLetter Overflow = "DeadLetter"
)

// Settings are the rules of one queue.
type Settings struct {
	// MaxRetries is given to messages enqueued without their own, 1 to 10.
	MaxRetries int
	// Backoff spaces the retries.
	Backoff Backoff
	// VisibilityTimeout is how long a claim holds a message unless the claim says otherwise.
	VisibilityTimeout time.Duration
	// MaxDeliveries is the number of claims after which a message that still fails is dead.
	MaxDeliveries int
	// MessageTTL is for how long a message that does not say so itself may wait to be handled, from when it is first
	// ready; 0 is for ever.
	MessageTTL time.Duration
	// MaxLength is how many messages may be pending or processing before new ones are not accepted; 0 is any number.
	MaxLength int64
	// Overflow says what becomes of those.
	Overflow Overflow
	// State says whether the queue hands out messages.
	State QueueState
	// Breaker has the queue hand out nothing while too much fails.
	Breaker Breaker
	// Retention says how long finished messages are kept.
	Retention Retention
}

// Limits of what callers may ask for.
const (
	MinRetries           = 1
	MaxRetries           = 10
	MaxVisibilityTimeout = 12 * time.Hour
	MaxDelay             = 90 * 24 * time.Hour
	MaxTTL               = 365 * 24 * time.Hour
	MaxPriority          = 3
	MaxGroupKeyBytes     = 255
)

// DefaultSettings are the rules of a queue that nobody declared, and of whatever a declaration leaves out.
func DefaultSettings() Settings {
	return Settings{
		MaxRetries:        3,
		Backoff:           Backoff{Initial: 2 * time.Second, FactorPercent: 200, Max: time.Hour},
		VisibilityTimeout: 30 * time.Second,
		MaxDeliveries:     10,
		Overflow:          OverflowReject,
		State:             Active,
		Retention:         Retention{Succeeded: 24 * time.Hour, Dead: 14 * 24 * time.Hour, OnDeadExpiry: ExpiryDelete},
	}
}
