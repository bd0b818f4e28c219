package queueapi

import (
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// letterJSON is a dead letter: the envelope that tools for dead letters know, and what only we know.
type letterJSON struct {
	Envelope        envelopeJSON    `json:"dlq_envelope"`
	OriginalHeaders []headerJSON    `json:"original_headers"`
	OriginalBody    string          `json:"original_body"`
	BodyEncoding    payloadEncoding `json:"original_body_encoding"`
	BodySize        int             `json:"original_body_size"`
	// BodyTruncated is set in lists only, where long bodies are cut.
	BodyTruncated bool         `json:"original_body_truncated,omitempty"`
	Fingerprint   string       `json:"fingerprint"`
	ErrorClass    string       `json:"error_class"`
	Priority      int          `json:"priority"`
	GroupKey      *string      `json:"group_key"`
	MaxRetries    int          `json:"max_retries"`
	DeliveryCount int          `json:"delivery_count"`
	ReplayCount   int          `json:"replay_count"`
	DiedAt        *time.Time   `json:"died_at"`
	CreatedAt     time.Time    `json:"created_at"`
	Replays       []replayJSON `json:"replays"`
	// Revisions are the edits of the body, oldest first. The one that a producer sent is the body before the first.
	Revisions []revisionJSON `json:"revisions"`
	Attempts  []attemptJSON  `json:"attempts"`
}

// envelopeJSON is the part whose names are fixed. Topic, partition and offset are of messages that came from such a
// broker, so they are null for our own.
type envelopeJSON struct {
	MessageID         int64            `json:"message_id"`
	OriginalTopic     *string          `json:"original_topic"`
	OriginalQueue     string           `json:"original_queue"`
	OriginalPartition *int64           `json:"original_partition"`
	OriginalOffset    *int64           `json:"original_offset"`
	FailureReason     string           `json:"failure_reason"`
	FailureCategory   message.Category `json:"failure_category"`
	StackTrace        *string          `json:"stack_trace"`
	RetryCount        int              `json:"retry_count"`
	FirstFailureAt    *time.Time       `json:"first_failure_at"`
	LastFailureAt     *time.Time       `json:"last_failure_at"`
	ConsumerInstance  *string          `json:"consumer_instance"`
	ConsumerVersion   *string          `json:"consumer_version"`
}

type replayJSON struct {
	At          time.Time        `json:"at"`
	Source      string           `json:"source"`
	DiedAt      time.Time        `json:"died_at"`
	Category    message.Category `json:"category"`
	Fingerprint string           `json:"fingerprint"`
	// MovedFrom is the queue that the message left for another; null when it went back to its own.
	MovedFrom *string `json:"moved_from"`
}

type revisionJSON struct {
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	Source string    `json:"source"`
	// Size is that of the body before the edit.
	Size int `json:"size"`
}

type attemptJSON struct {
	Number    int                 `json:"number"`
	StartedAt time.Time           `json:"started_at"`
	EndedAt   time.Time           `json:"ended_at"`
	Outcome   message.Outcome     `json:"outcome"`
	Consumer  consumerJSON        `json:"consumer"`
	Failure   *attemptFailureJSON `json:"failure"`
}

type attemptFailureJSON struct {
	failureJSON

	StackTrace *string `json:"stack_trace"`
}

type letterPageJSON struct {
	Letters    []letterJSON `json:"dead_letters"`
	Count      int          `json:"count"`
	NextCursor *string      `json:"next_cursor"`
}

type groupJSON struct {
	Fingerprint      string           `json:"fingerprint"`
	Category         message.Category `json:"category"`
	Count            int64            `json:"count"`
	FirstDiedAt      time.Time        `json:"first_died_at"`
	LastDiedAt       time.Time        `json:"last_died_at"`
	Sample           sampleJSON       `json:"sample"`
	ConsumerVersions []string         `json:"consumer_versions"`
}

type sampleJSON struct {
	ID     int64  `json:"id"`
	Reason string `json:"reason"`
}

type groupsJSON struct {
	Groups []groupJSON `json:"groups"`
	Count  int         `json:"count"`
}

func newLetterJSON(letter *store.DeadLetter) letterJSON {
	m := &letter.Message
	view := letterJSON{
		Envelope: envelopeJSON{
			MessageID: m.ID, OriginalQueue: m.Queue, RetryCount: m.RetryCount, FirstFailureAt: utcOrNil(m.FirstFailureAt),
		},
		OriginalHeaders: newHeadersJSON(m.Headers),
		BodySize:        m.PayloadSize,
		Priority:        m.Priority,
		GroupKey:        textOrNil(m.GroupKey),
		MaxRetries:      m.MaxRetries,
		DeliveryCount:   m.DeliveryCount,
		ReplayCount:     m.ReplayCount,
		DiedAt:          utcOrNil(m.DeadAt),
		CreatedAt:       m.CreatedAt.UTC(),
		Replays:         make([]replayJSON, len(letter.Replays)),
		Revisions:       make([]revisionJSON, len(letter.Revisions)),
		Attempts:        make([]attemptJSON, len(letter.Attempts)),
	}
	view.OriginalBody, view.BodyEncoding = encodePayload(m.Payload)
	if failure := m.LastFailure; failure != nil {
		view.Fingerprint, view.ErrorClass = failure.Fingerprint, failure.ErrorClass
		view.Envelope.FailureReason, view.Envelope.FailureCategory = failure.Reason, failure.Category
		view.Envelope.StackTrace = textOrNil(failure.StackTrace)
		view.Envelope.LastFailureAt = utcOrNil(&failure.At)
		view.Envelope.ConsumerInstance = textOrNil(failure.Consumer.Instance)
		view.Envelope.ConsumerVersion = textOrNil(failure.Consumer.Version)
	}
	for i, replay := range letter.Replays {
		view.Replays[i] = replayJSON{
			At: replay.At.UTC(), Source: replay.Source, DiedAt: replay.DiedAt.UTC(),
			Category: replay.Category, Fingerprint: replay.Fingerprint, MovedFrom: textOrNil(replay.MovedFrom),
		}
	}
	for i, revision := range letter.Revisions {
		view.Revisions[i] = revisionJSON{revision.Number, revision.At.UTC(), revision.Source, revision.Size}
	}
	view.Envelope.OriginalQueue = originalQueue(letter)
	for i := range letter.Attempts {
		view.Attempts[i] = newAttemptJSON(&letter.Attempts[i])
	}
	return view
}

// originalQueue is where the message was enqueued.
func originalQueue(letter *store.DeadLetter) string {
	for _, replay := range letter.Replays {
		if replay.MovedFrom != "" {
			return replay.MovedFrom
		}
	}
	return letter.Message.Queue
}

// newListedLetterJSON is a dead letter as a list shows it: a long body is cut, and the stack traces of its attempts are
// left to the letter's own page.
func newListedLetterJSON(letter *store.DeadLetter) letterJSON {
	shown, cut := preview(&letter.Message)
	listed := *letter
	listed.Message.Payload = shown
	view := newLetterJSON(&listed)
	view.BodyTruncated = cut
	for i := range view.Attempts {
		if view.Attempts[i].Failure != nil {
			view.Attempts[i].Failure.StackTrace = nil
		}
	}
	return view
}

func newAttemptJSON(attempt *message.Attempt) attemptJSON {
	view := attemptJSON{
		Number: attempt.Number, StartedAt: attempt.StartedAt.UTC(), EndedAt: attempt.EndedAt.UTC(),
		Outcome: attempt.Outcome, Consumer: consumerJSON(attempt.Consumer),
	}
	if attempt.Failure != nil {
		view.Failure = &attemptFailureJSON{newFailureJSON(attempt.Failure), textOrNil(attempt.Failure.StackTrace)}
	}
	return view
}

func newGroupJSON(group *store.Group) groupJSON {
	versions := group.ConsumerVersions
	if versions == nil {
		versions = []string{}
	}
	return groupJSON{
		Fingerprint: group.Fingerprint, Category: group.Category, Count: group.Count,
		FirstDiedAt: group.FirstDiedAt.UTC(), LastDiedAt: group.LastDiedAt.UTC(),
		Sample:           sampleJSON{ID: group.SampleID, Reason: group.SampleReason},
		ConsumerVersions: versions,
	}
}

// textOrNil is null for a text that nobody gave.
func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
