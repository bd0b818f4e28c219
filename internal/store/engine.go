package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"deadletter.dev/deadletter/internal/message"
)

// Errors of the engine. Callers match them with errors.Is.
var (
	// ErrNotFound is returned for a message or queue that is not there.
	ErrNotFound = errors.New("not found")
	// ErrNotProcessing is returned when a call needs a leased message and it is not leased, or its lease has expired.
	ErrNotProcessing = errors.New("message is not processing")
	// ErrStaleLease is returned when the call's lease token is not the current lease's.
	ErrStaleLease = errors.New("lease token is stale")
	// ErrNotDead is returned when a replay asks for a message that is not dead.
	ErrNotDead = errors.New("message is not dead")
	// ErrKeyReused is matched by every *KeyReusedError.
	ErrKeyReused = errors.New("key was used for other messages")
	// ErrNoLongerKept is returned for a key whose messages were accepted before and are not kept any more.
	ErrNoLongerKept = errors.New("messages accepted under this key are no longer kept")
	// ErrClosedQueue is returned by an enqueue to a queue that is being deleted.
	ErrClosedQueue = errors.New("queue is being deleted")
	// ErrQueueFull is returned by an enqueue that a queue's maximum length leaves no room for.
	ErrQueueFull = errors.New("queue is full")
	// ErrUndeclaredQueue is returned by an enqueue to a queue that nobody declared, where the Broker denies that.
	ErrUndeclaredQueue = errors.New("queue is not declared")
)

// Engine is the queue engine: what moves messages between states. It is kept this narrow so that a faster engine can
// take its place; package storetest holds the suite that every engine must pass.
//
//nolint:interfacebloat // one method for each thing that can befall a message
type Engine interface {
	// Enqueue accepts all messages or none, in order, and returns them as stored. The queue comes into being if need be.
	Enqueue(ctx context.Context, queue string, messages []NewMessage) ([]message.Message, error)
	// EnqueueOnce is Enqueue for messages under keys: what was accepted under a key within KeyWindow is not accepted
	// again, and is returned as it is now. All is accepted or nothing. Other messages under a known key are ErrKeyReused.
	EnqueueOnce(ctx context.Context, queue string, requests []KeyedMessages) ([]Accepted, error)
	// Claim leases up to params.Max ready messages, first ready first. An unknown or paused queue gives none.
	Claim(ctx context.Context, queue string, params ClaimParams) ([]message.Message, error)
	// Succeed finishes leased messages; of several, the contents are left out of the results. Each lease is settled or
	// refused on its own; the results are in order.
	Succeed(ctx context.Context, queue string, leases []LeaseRef) ([]Settled, error)
	// Fail records failures: a retry or a death each. Each is settled or refused on its own; the results are in order.
	Fail(ctx context.Context, queue string, failures []FailedLease) ([]Settled, error)
	// Release gives a leased message back, at no cost of a retry, ready after delay.
	Release(ctx context.Context, queue string, lease LeaseRef, delay time.Duration) (message.Message, error)
	// Extend lets the lease run until now + by.
	Extend(ctx context.Context, queue string, lease LeaseRef, by time.Duration) (message.Message, error)
	// Replay puts one dead letter back to work.
	Replay(ctx context.Context, queue string, id int64) (message.Message, error)
	// ExpireLeases fails up to limit messages whose lease has run out and returns how many.
	ExpireLeases(ctx context.Context, limit int) (int, error)
	// ExpireMessages makes up to about limit pending messages whose time to live has passed dead letters, and returns how
	// many.
	ExpireMessages(ctx context.Context, limit int) (int, error)
	// Get returns one message.
	Get(ctx context.Context, queue string, id int64) (message.Message, error)
	// List returns a page of a queue's messages, oldest id first, with payloads cut to PreviewBytes.
	List(ctx context.Context, queue string, params ListParams) (Page, error)
}

// NewMessage is a message to enqueue.
type NewMessage struct {
	Payload []byte
	Headers []message.Header
	// MaxRetries is 1 to 10, or 0 for the queue's.
	MaxRetries int
	// Delay holds the message back, 0 to message.MaxDelay.
	Delay time.Duration
	// Priority is 0 to message.MaxPriority.
	Priority int
	// GroupKey, when set, is at most message.MaxGroupKeyBytes of UTF-8 without NUL.
	GroupKey string
	// TTL is for how long the message may wait to be handled once Delay has passed, at most message.MaxTTL, or 0 for the
	// queue's.
	TTL time.Duration
}

// KeyWindow is for how long a key is remembered.
const KeyWindow = 24 * time.Hour

// KeyedMessages are messages to accept once under a key of the producer's, 1 to 255 bytes. Without a key they are
// accepted in any case.
type KeyedMessages struct {
	Key      string
	Messages []NewMessage
}

// Accepted is what was accepted under a key: now, or before.
type Accepted struct {
	Messages []message.Message
	// Before says that an earlier request was accepted, and this one changed nothing.
	Before bool
}

// KeyReusedError says that a key was used before for other messages. It matches ErrKeyReused.
type KeyReusedError struct {
	// Request is the position of the request whose key it is.
	Request int
}

func (e *KeyReusedError) Error() string {
	return "the key of request " + strconv.Itoa(e.Request) + " was used for other messages"
}

// Is matches ErrKeyReused.
func (e *KeyReusedError) Is(target error) bool { return target == ErrKeyReused }

// ClaimParams is what a claim asks for.
type ClaimParams struct {
	// Max is the most messages to lease, 1 to 1,000.
	Max int
	// MaxBytes is the size of payloads after which no further message is leased; 0 means 4 MiB. One message is always
	// leased, however large.
	MaxBytes int
	// VisibilityTimeout is how long to hold them, or 0 for the queue's.
	VisibilityTimeout time.Duration
	Consumer          message.Consumer
}

// LeaseRef names a leased message. An empty Token acts on whatever lease is current.
type LeaseRef struct {
	ID    int64
	Token string
}

// FailedLease is a leased message and what went wrong with it.
type FailedLease struct {
	LeaseRef
	Report message.Report
}

// Settled is the result of one item of a batch: the message as it is now, or why the call was refused
// (ErrNotFound, ErrNotProcessing, ErrStaleLease).
type Settled struct {
	Message message.Message
	Err     error
}

// ListParams selects a page of messages.
type ListParams struct {
	// Status, when set, keeps messages of that status only.
	Status message.Status
	// AfterID is the last id of the page before; 0 starts at the beginning.
	AfterID int64
	// Offset skips messages after AfterID.
	Offset int
	// Limit is the most messages to return, 1 to 100.
	Limit int
}

// Page is one page of messages. NextAfterID is the AfterID of the next page, or 0 when there is none.
type Page struct {
	Messages    []message.Message
	NextAfterID int64
}
