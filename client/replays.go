package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ReplayRun is what a Replay resource did, or would do, with the dead letters of a queue. Times that do not apply are
// zero.
type ReplayRun struct {
	ID int64 `json:"id"`
	// Namespace and Name are those of the Replay resource, and RunID is its own name for the run.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	RunID     string `json:"run_id"`
	// Mode is Preview or Execute.
	Mode string `json:"mode"`
	// State is Running, Completed, Cancelled or Aborted; AbortReason says why an aborted run was.
	State       string       `json:"state"`
	AbortReason string       `json:"abort_reason,omitempty"`
	Counts      ReplayCounts `json:"counts"`
	// Categories, Fingerprints and ConsumerVersions are those of the selected letters, with their numbers.
	Categories       []ValueCount `json:"categories"`
	Fingerprints     []ValueCount `json:"fingerprints"`
	ConsumerVersions []ValueCount `json:"consumer_versions"`
	OldestDiedAt     time.Time    `json:"oldest_died_at,omitzero"`
	NewestDiedAt     time.Time    `json:"newest_died_at,omitzero"`
	// StartedAt is when the selection was frozen.
	StartedAt      time.Time `json:"started_at"`
	CanaryPassedAt time.Time `json:"canary_passed_at,omitzero"`
	CompletedAt    time.Time `json:"completed_at,omitzero"`
}

// ReplayCounts are the numbers of a run. Matched is the sum of Replayed, Skipped, Failed, Remaining and BeyondLimit,
// and Replayed that of Succeeded, Redied, Removed and Pending.
type ReplayCounts struct {
	// Matched letters met the selector; Unmatchable ones could not be decided by the expression.
	Matched     int64 `json:"matched"`
	Unmatchable int64 `json:"unmatchable"`
	// Replayed letters were put back to work, Skipped ones left alone, Failed ones could not be edited, Remaining ones are
	// still to do or were left when the run ended, and BeyondLimit ones were left by its limit.
	Replayed    int64 `json:"replayed"`
	Skipped     int64 `json:"skipped"`
	Failed      int64 `json:"failed"`
	Remaining   int64 `json:"remaining"`
	BeyondLimit int64 `json:"beyond_limit"`
	// Of what was replayed: Redied died again, Removed was purged before it ended, Pending has not ended.
	Succeeded int64 `json:"succeeded"`
	Redied    int64 `json:"redied"`
	Removed   int64 `json:"removed"`
	Pending   int64 `json:"pending"`
}

// ValueCount is how many letters have a value.
type ValueCount struct {
	Value string `json:"value"`
	Count int64  `json:"count"`
}

// ReplayedMessage is one letter that a run selected.
type ReplayedMessage struct {
	MessageID int64 `json:"message_id"`
	// State is what the run did with it: selected (still to do), replayed, skipped, failed or cancelled.
	State string `json:"state"`
	// Error says why a failed one stayed dead.
	Error string `json:"error,omitempty"`
	// Outcome is what became of a replayed one: succeeded, redied or removed; empty while it has not ended.
	Outcome string `json:"outcome,omitempty"`
}

// ReplayRuns walks the replay runs and previews of a queue, newest first. An error ends the walk.
func (c *Client) ReplayRuns(ctx context.Context, queue string) iter.Seq2[*ReplayRun, error] {
	return walk(maxPage, nil, func(query url.Values) ([]*ReplayRun, string, error) {
		var page struct {
			Replays    []*ReplayRun `json:"replays"`
			NextCursor string       `json:"next_cursor"`
		}
		_, err := c.do(ctx, request{
			method: http.MethodGet, path: queuePath(queue, "/replays"), query: query, safety: readOnly,
		}, &page)
		if err != nil {
			err = fmt.Errorf("list replay runs of %q: %w", queue, err)
		}
		return page.Replays, page.NextCursor, err
	})
}

// ReplayRun returns one replay run.
func (c *Client) ReplayRun(ctx context.Context, queue string, id int64) (*ReplayRun, error) {
	run := new(ReplayRun)
	_, err := c.do(ctx, request{method: http.MethodGet, path: runPath(queue, id, ""), safety: readOnly}, run)
	if err != nil {
		return nil, fmt.Errorf("get replay run %d of %q: %w", id, queue, err)
	}
	return run, nil
}

// ReplayedMessages walks the letters that a replay run selected, in the order of their deaths. An error ends the walk.
func (c *Client) ReplayedMessages(ctx context.Context, queue string, id int64) iter.Seq2[*ReplayedMessage, error] {
	return walk(maxPage, nil, func(query url.Values) ([]*ReplayedMessage, string, error) {
		var page struct {
			Messages   []*ReplayedMessage `json:"messages"`
			NextCursor string             `json:"next_cursor"`
		}
		_, err := c.do(ctx, request{
			method: http.MethodGet, path: runPath(queue, id, "/messages"), query: query, safety: readOnly,
		}, &page)
		if err != nil {
			err = fmt.Errorf("list messages of replay run %d of %q: %w", id, queue, err)
		}
		return page.Messages, page.NextCursor, err
	})
}

func runPath(queue string, id int64, rest string) string {
	return queuePath(queue, "/replays/"+strconv.FormatInt(id, 10)+rest)
}

// revisionJSON is a payload before an edit, as the API writes it.
type revisionJSON struct {
	textPayload

	MessageID   int64 `json:"message_id"`
	Number      int   `json:"number"`
	PayloadSize int   `json:"payload_size"`
}

// Revision returns the payload of a message as it was before its edit of this number, which counts from 1; see
// [DeadLetter].Revisions.
func (c *Client) Revision(ctx context.Context, queue string, id int64, number int) ([]byte, error) {
	var wire revisionJSON
	path := messagePath(queue, id, "/revisions/"+strconv.Itoa(number))
	_, err := c.do(ctx, request{method: http.MethodGet, path: path, safety: readOnly}, &wire)
	var payload []byte
	if err == nil {
		payload, err = wire.decode()
	}
	if err != nil {
		return nil, fmt.Errorf("get revision %d of message %d of %q: %w", number, id, queue, err)
	}
	return payload, nil
}
