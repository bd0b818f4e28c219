package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// DeadLetter is a message that failed for good, with its record. Times that do not apply are zero.
type DeadLetter struct {
	Envelope Envelope `json:"dlq_envelope"`
	// Headers and Body are, byte for byte, what was enqueued. In lists the body is cut after 64 KiB.
	Headers []Header `json:"original_headers"`
	Body    []byte   `json:"-"`
	// BodySize is the size of the whole body in bytes, and BodyTruncated says that Body is cut.
	BodySize      int  `json:"original_body_size"`
	BodyTruncated bool `json:"original_body_truncated,omitempty"`
	// Fingerprint groups failures of one cause.
	Fingerprint   string    `json:"fingerprint"`
	ErrorClass    string    `json:"error_class"`
	Priority      int       `json:"priority"`
	GroupKey      string    `json:"group_key,omitempty"`
	MaxRetries    int       `json:"max_retries"`
	DeliveryCount int       `json:"delivery_count"`
	ReplayCount   int       `json:"replay_count"`
	DiedAt        time.Time `json:"died_at,omitzero"`
	CreatedAt     time.Time `json:"created_at"`
	// Replays are the times it came back from being dead.
	Replays []ReplayRecord `json:"replays"`
	// Revisions are the edits of the body, oldest first; see [Client.Revision].
	Revisions []Revision `json:"revisions"`
	// Attempts are those that ended without success; the first and the newest are always kept. In lists they have no
	// stack traces.
	Attempts []Attempt `json:"attempts"`
}

// Envelope is the part of a dead letter that tools for dead letters have in common. Topic, partition and offset are of
// messages that came from another broker.
type Envelope struct {
	MessageID        int64     `json:"message_id"`
	Topic            string    `json:"original_topic,omitempty"`
	Queue            string    `json:"original_queue"`
	Partition        *int64    `json:"original_partition,omitempty"`
	Offset           *int64    `json:"original_offset,omitempty"`
	FailureReason    string    `json:"failure_reason"`
	FailureCategory  Category  `json:"failure_category"`
	StackTrace       string    `json:"stack_trace,omitempty"`
	RetryCount       int       `json:"retry_count"`
	FirstFailureAt   time.Time `json:"first_failure_at,omitzero"`
	LastFailureAt    time.Time `json:"last_failure_at,omitzero"`
	ConsumerInstance string    `json:"consumer_instance,omitempty"`
	ConsumerVersion  string    `json:"consumer_version,omitempty"`
}

// ReplayRecord is one return from being dead.
type ReplayRecord struct {
	At time.Time `json:"at"`
	// Source is the run as namespace/name/runID, or api for a single replay.
	Source string `json:"source"`
	// DiedAt is the death that the replay answered.
	DiedAt      time.Time `json:"died_at"`
	Category    Category  `json:"category"`
	Fingerprint string    `json:"fingerprint"`
	// MovedFrom is the queue that the message left for another; empty when it went back to its own.
	MovedFrom string `json:"moved_from,omitempty"`
}

// Revision is one edit of a body, which a Replay made.
type Revision struct {
	// Number counts the edits of a message from 1.
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	// Source is the run as namespace/name/runID.
	Source string `json:"source"`
	// Size is the size of the body before the edit in bytes.
	Size int `json:"size"`
}

// Attempt is one claim that ended without success.
type Attempt struct {
	// Number counts all claims of the message over its whole life.
	Number    int       `json:"number"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// Outcome is failed, expired or released.
	Outcome  string   `json:"outcome"`
	Consumer Consumer `json:"consumer"`
	// Failure is nil for a release.
	Failure *AttemptFailure `json:"failure,omitempty"`
}

// AttemptFailure is the failure that ended an attempt.
type AttemptFailure struct {
	Failure

	StackTrace string `json:"stack_trace,omitempty"`
}

// letterFields are the fields of a dead letter whose JSON is that of the API as they are.
type letterFields DeadLetter

// letterJSON is a dead letter as the API writes it.
type letterJSON struct {
	*letterFields

	Text     *string `json:"original_body,omitempty"`
	Encoding string  `json:"original_body_encoding,omitempty"`
}

// UnmarshalJSON reads a dead letter of the API.
func (l *DeadLetter) UnmarshalJSON(text []byte) error {
	wire := letterJSON{letterFields: (*letterFields)(l)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	var err error
	l.Body, err = textPayload{Text: wire.Text, Encoding: wire.Encoding}.decode()
	return err
}

// MarshalJSON writes the dead letter as the API does, without what does not apply.
func (l DeadLetter) MarshalJSON() ([]byte, error) {
	body := encodePayload(l.Body)
	return encode(letterJSON{letterFields: (*letterFields)(&l), Text: body.Text, Encoding: body.Encoding})
}

// DeadLetterFilter says which dead letters to list; all that is given must hold. Its zero value lists all of a queue.
type DeadLetterFilter struct {
	// Categories and Fingerprints are any of up to 20 each.
	Categories   []Category
	Fingerprints []string
	// ErrorClass and ConsumerVersion must be equal.
	ErrorClass      string
	ConsumerVersion string
	// Reason is a part of the failure reason, taken literally.
	Reason string
	// DiedAfter and DiedBefore bound the time of death: at or after the one, before the other.
	DiedAfter, DiedBefore time.Time
	// ReplayCount is how often it was replayed, exactly; nil for any number.
	ReplayCount *int
	// Header is one that the message has; nil for none.
	Header *Header
	// PageSize is how many letters to fetch at a time, from 1 to 100; 0 means 100.
	PageSize int
}

func (f *DeadLetterFilter) query() url.Values {
	query := url.Values{}
	for _, category := range f.Categories {
		query.Add("category", string(category))
	}
	for _, fingerprint := range f.Fingerprints {
		query.Add("fingerprint", fingerprint)
	}
	for name, text := range map[string]string{
		"error_class": f.ErrorClass, "consumer_version": f.ConsumerVersion, "reason": f.Reason,
	} {
		if text != "" {
			query.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"died_after": f.DiedAfter, "died_before": f.DiedBefore} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.ReplayCount != nil {
		query.Set("replay_count", strconv.Itoa(*f.ReplayCount))
	}
	if f.Header != nil {
		query.Set("header", f.Header.Name+":"+f.Header.Value)
	}
	return query
}

// DeadLetters walks the dead letters of a queue, newest death first. Long bodies are cut; see [DeadLetter]. An error
// ends the walk.
func (c *Client) DeadLetters(ctx context.Context, queue string, filter DeadLetterFilter) iter.Seq2[*DeadLetter, error] {
	return walk(filter.PageSize, filter.query(), func(query url.Values) ([]*DeadLetter, string, error) {
		var page struct {
			DeadLetters []*DeadLetter `json:"dead_letters"`
			NextCursor  string        `json:"next_cursor"`
		}
		_, err := c.do(ctx, request{
			method: http.MethodGet, path: queuePath(queue, "/dead-letters"), query: query, safety: readOnly,
		}, &page)
		if err != nil {
			err = fmt.Errorf("list dead letters of %q: %w", queue, err)
		}
		return page.DeadLetters, page.NextCursor, err
	})
}

// DeadLetter returns one dead letter with its whole body and history. It returns [ErrNotFound] when the message is not
// dead; the error's Detail says what it is instead.
func (c *Client) DeadLetter(ctx context.Context, queue string, id int64) (*DeadLetter, error) {
	letter := new(DeadLetter)
	path := queuePath(queue, "/dead-letters/"+strconv.FormatInt(id, 10))
	if _, err := c.do(ctx, request{method: http.MethodGet, path: path, safety: readOnly}, letter); err != nil {
		return nil, fmt.Errorf("get dead letter %d of %q: %w", id, queue, err)
	}
	return letter, nil
}

// Group is the dead letters of a queue with one fingerprint: failures of one category whose reasons differ in numbers,
// ids, quoted values, addresses and times only.
type Group struct {
	Fingerprint string    `json:"fingerprint"`
	Category    Category  `json:"category"`
	Count       int64     `json:"count"`
	FirstDiedAt time.Time `json:"first_died_at"`
	LastDiedAt  time.Time `json:"last_died_at"`
	// Sample is the newest letter of the group.
	Sample GroupSample `json:"sample"`
	// ConsumerVersions are at most 20.
	ConsumerVersions []string `json:"consumer_versions"`
}

// GroupSample is one dead letter of a group.
type GroupSample struct {
	ID     int64  `json:"id"`
	Reason string `json:"reason"`
}

// Groups returns the largest groups of a queue's dead letters, at most limit of them, from 1 to 100.
func (c *Client) Groups(ctx context.Context, queue string, limit int) ([]Group, error) {
	var got struct {
		Groups []Group `json:"groups"`
	}
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: queuePath(queue, "/dead-letters/groups"), safety: readOnly,
		query: url.Values{"limit": {strconv.Itoa(limit)}},
	}, &got)
	if err != nil {
		return nil, fmt.Errorf("group dead letters of %q: %w", queue, err)
	}
	return got.Groups, nil
}

// Replay puts one dead letter back to work, with its counters reset. It returns [ErrNotDead] when it is none, and is
// not repeated when its answer is lost. To replay many under control, apply a Replay resource.
func (c *Client) Replay(ctx context.Context, queue string, id int64) (*Message, error) {
	return c.actOn(ctx, queue, id, "replay")
}

// Discard removes one dead letter for good, and returns it as it was. It returns [ErrNotDead] when it is none, and
// [ErrInReplay] when a running Replay has selected it. It is not repeated when its answer is lost.
func (c *Client) Discard(ctx context.Context, queue string, id int64) (*Message, error) {
	return c.actOn(ctx, queue, id, "discard")
}

func (c *Client) actOn(ctx context.Context, queue string, id int64, action string) (*Message, error) {
	m := new(Message)
	_, err := c.do(ctx, request{method: http.MethodPost, path: messagePath(queue, id, "/"+action), safety: once}, m)
	if err != nil {
		return nil, fmt.Errorf("%s message %d of %q: %w", action, id, queue, err)
	}
	return m, nil
}
