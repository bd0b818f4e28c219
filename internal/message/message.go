package message

import "time"

// Status is the state of a message in its lifecycle.
type Status string

const (
	// Pending is ready to be claimed, or waiting until its ready time.
	Pending Status = "pending"
	// Processing is held by a worker under a lease.
	Processing Status = "processing"
	// Succeeded was finished by a worker.
	Succeeded Status = "succeeded"
	// Dead is a dead letter: out of retries or deliveries, or failed for good.
	Dead Status = "dead"
)

// Statuses lists every status in lifecycle order.
func Statuses() []Status { return []Status{Pending, Processing, Succeeded, Dead} }

// Valid reports whether s is one of the four statuses.
func (s Status) Valid() bool {
	switch s {
	case Pending, Processing, Succeeded, Dead:
		return true
	default:
		return false
	}
}

// Header is one name/value pair. Headers keep their order and their duplicates.
type Header struct {
	Name  string
	Value string
}

// Consumer identifies the worker that holds or held a message. Both fields are free text of the worker's.
type Consumer struct {
	// Instance tells workers apart, for example a pod name.
	Instance string
	// Version is the release of the worker's code.
	Version string
}

// Lease is a worker's exclusive, time-bound hold on a message.
type Lease struct {
	// Token fences calls: a call carrying any other token is stale.
	Token string
	// ExpiresAt is when the hold ends, by the database's clock.
	ExpiresAt time.Time
	// Consumer is who claimed the message.
	Consumer Consumer
}

// Message is one message with its whole current state.
type Message struct {
	// ID is unique in the Broker and grows with time of enqueue.
	ID int64
	// Queue is the NFC-normalised name of the queue.
	Queue string
	// Payload is opaque: any bytes, NUL included, returned identical.
	Payload []byte
	// PayloadSize is the size of the whole payload in bytes; a list cuts long ones.
	PayloadSize int
	// Headers are the producer's, in order, duplicates kept.
	Headers []Header
	// Status is the lifecycle state.
	Status Status
	// Priority is 0 to MaxPriority; of what is ready, the highest is claimed first.
	Priority int
	// GroupKey, when set, orders the message: of the unfinished messages of a queue with one key, only the first is
	// handed out.
	GroupKey string
	// ExpiresAt is when the message dies unless it is handled before, or nil. It counts while the message is pending.
	ExpiresAt *time.Time
	// RetryCount counts failures since enqueue or replay.
	RetryCount int
	// MaxRetries is the number of failures at which the message dies, 1 to 10.
	MaxRetries int
	// DeliveryCount counts claims since enqueue or replay; a released claim is given back and not counted.
	DeliveryCount int
	// ReplayCount counts how often the message came back from being dead.
	ReplayCount int
	// RetryAfter is when a failed, delayed or released message becomes ready again; nil when it is ready or not pending.
	RetryAfter *time.Time
	// Lease is set while the message is processing.
	Lease *Lease
	// LastFailure is the failure that last befell the message since enqueue or replay.
	LastFailure *Failure
	// FirstFailureAt is the first failure ever, kept across replays.
	FirstFailureAt *time.Time
	// DeadAt is when the message died; set while it is dead.
	DeadAt *time.Time
	// CreatedAt is when the message was enqueued.
	CreatedAt time.Time
	// UpdatedAt is when the state last changed.
	UpdatedAt time.Time
}

// Outcome says how an attempt ended.
type Outcome string

const (
	// OutcomeFailed is a failure reported by the worker.
	OutcomeFailed Outcome = "failed"
	// OutcomeExpired is a lease that ran out without a word from the worker.
	OutcomeExpired Outcome = "expired"
	// OutcomeReleased is a message given back unprocessed.
	OutcomeReleased Outcome = "released"
)

// Attempt is one claim of a message that ended without success.
type Attempt struct {
	// Number counts all claims of the message over its whole life, from 1; it orders the history, clocks do not.
	Number int
	// StartedAt is when the message was claimed.
	StartedAt time.Time
	// EndedAt is when the claim ended.
	EndedAt time.Time
	// Outcome says how it ended.
	Outcome Outcome
	// Failure is what went wrong; nil for a release.
	Failure *Failure
	// Consumer is who held the message.
	Consumer Consumer
}

// Replay is one return of a message from dead to pending.
type Replay struct {
	// At is when the message went back to work.
	At time.Time
	// Source names the run ("namespace/name/runID"), or "api" for a replay of this one message.
	Source string
	// DiedAt is the death that this replay answered.
	DiedAt time.Time
	// Category and Fingerprint are of that death.
	Category    Category
	Fingerprint string
	// MovedFrom is the queue that the message left for another; "" when it went back to its own.
	MovedFrom string
}

// Revision is one edit of a message's payload.
type Revision struct {
	// Number counts the edits from 1.
	Number int
	// At is when it was edited, Source who asked for it, as of a Replay.
	At     time.Time
	Source string
	// Size is that of the payload before the edit, in bytes.
	Size int
}
