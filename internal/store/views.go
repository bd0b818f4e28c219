package store

import (
	"time"

	"deadletter.dev/deadletter/internal/message"
)

// DeadLetterFilter selects dead letters. Zero fields select everything; set ones must all hold.
type DeadLetterFilter struct {
	Categories   []message.Category
	Fingerprints []string
	ErrorClass   string
	// ReasonContains is a substring of the failure reason, taken literally and case-sensitively.
	ReasonContains string
	// ConsumerVersions are the versions one of which failed last.
	ConsumerVersions []string
	// DiedAfter is inclusive, DiedBefore exclusive.
	DiedAfter, DiedBefore time.Time
	// ReplayCount, when not nil, is the exact number of replays.
	ReplayCount *int
	// Headers must each be present with exactly this value.
	Headers []message.Header
	IDs     []int64
}

// DeadLetterCursor is a position in the list of dead letters, newest death first. The zero cursor is before the first.
type DeadLetterCursor struct {
	DiedAt time.Time
	ID     int64
}

// DeadLetter is a dead message with its history.
type DeadLetter struct {
	Message  message.Message
	Attempts []message.Attempt
	Replays  []message.Replay
	// Revisions are the edits of the payload, oldest first. The payloads before them are kept; see Revision.
	Revisions []message.Revision
}

// DeadLetterPage is one page of dead letters; Attempts and Replays are filled. Next is nil on the last page.
type DeadLetterPage struct {
	Letters []DeadLetter
	Next    *DeadLetterCursor
}

// Group is the dead letters of one fingerprint in one queue.
type Group struct {
	Fingerprint string
	Category    message.Category
	Count       int64
	// FirstDiedAt and LastDiedAt are of the letters that are dead now.
	FirstDiedAt, LastDiedAt time.Time
	// SampleID and SampleReason are of the newest letter of the group.
	SampleID     int64
	SampleReason string
	// ConsumerVersions are the versions that failed, sorted, at most MaxGroupVersions.
	ConsumerVersions []string
}

// MaxGroupVersions bounds the consumer versions listed for a group.
const MaxGroupVersions = 20

// Owner is the Queue resource that declares a queue.
type Owner struct {
	Namespace, Name string
}

// QueueInfo is a queue's settings and depth.
type QueueInfo struct {
	Name string
	// Declared says whether a Queue resource manages the queue; Owner is it.
	Declared bool
	Owner    Owner
	Settings message.Settings
	Depth    Depth
	Breaker  BreakerInfo
	// CreatedAt is when the queue came into being.
	CreatedAt time.Time
}

// BreakerInfo is what a queue's circuit breaker lets through.
type BreakerInfo struct {
	State message.BreakerState
	// ChangedAt is since when, OpenUntil when an open one lets some messages through.
	ChangedAt time.Time
	OpenUntil *time.Time
}

// Depth is the exact number of messages by state, kept as counters and never by counting rows.
type Depth struct {
	Pending, Processing, Succeeded, Dead int64
	// OldestReadyAt is the ready time of the oldest message that could be claimed now; nil when there is none.
	OldestReadyAt *time.Time
	// OldestDeadAt is the earliest death among the dead; nil when there is none.
	OldestDeadAt *time.Time
	// ObservedAt is the database's time of the observation.
	ObservedAt time.Time
}
