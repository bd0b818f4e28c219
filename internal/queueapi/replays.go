package queueapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// runJSON is a replay run. Of one that moves letters, matched = replayed + skipped + failed + remaining + beyond_limit,
// and replayed = succeeded + redied + removed + pending.
type runJSON struct {
	ID        int64          `json:"id"`
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	RunID     string         `json:"run_id"`
	Mode      store.RunMode  `json:"mode"`
	State     store.RunState `json:"state"`
	// AbortReason is null unless the run was aborted.
	AbortReason *string       `json:"abort_reason"`
	Counts      runCountsJSON `json:"counts"`
	// Categories, Fingerprints and ConsumerVersions count the selected letters, most frequent first.
	Categories       []valueCountJSON `json:"categories"`
	Fingerprints     []valueCountJSON `json:"fingerprints"`
	ConsumerVersions []valueCountJSON `json:"consumer_versions"`
	OldestDiedAt     *time.Time       `json:"oldest_died_at"`
	NewestDiedAt     *time.Time       `json:"newest_died_at"`
	StartedAt        time.Time        `json:"started_at"`
	CanaryPassedAt   *time.Time       `json:"canary_passed_at"`
	CompletedAt      *time.Time       `json:"completed_at"`
}

type runCountsJSON struct {
	Matched     int64 `json:"matched"`
	Replayed    int64 `json:"replayed"`
	Skipped     int64 `json:"skipped"`
	Failed      int64 `json:"failed"`
	Remaining   int64 `json:"remaining"`
	BeyondLimit int64 `json:"beyond_limit"`
	Unmatchable int64 `json:"unmatchable"`
	Succeeded   int64 `json:"succeeded"`
	Redied      int64 `json:"redied"`
	Removed     int64 `json:"removed"`
	Pending     int64 `json:"pending"`
}

type valueCountJSON struct {
	Value string `json:"value"`
	Count int64  `json:"count"`
}

type runPageJSON struct {
	Replays    []runJSON `json:"replays"`
	Count      int       `json:"count"`
	NextCursor *string   `json:"next_cursor"`
}

type runItemJSON struct {
	MessageID int64   `json:"message_id"`
	State     string  `json:"state"`
	Error     *string `json:"error"`
	Outcome   *string `json:"outcome"`
}

type runItemPageJSON struct {
	Messages   []runItemJSON `json:"messages"`
	Count      int           `json:"count"`
	NextCursor *string       `json:"next_cursor"`
}

func newRunJSON(run *store.Run) runJSON {
	view := runJSON{
		ID: run.ID, Namespace: run.Key.Namespace, Name: run.Key.Name, RunID: run.Key.RunID, Mode: run.Mode,
		State: run.State, AbortReason: textOrNil(run.AbortReason),
		Counts: runCountsJSON{
			Matched: run.Matched, Replayed: run.Replayed, Skipped: run.Skipped, Failed: run.Failed,
			Remaining: run.Remaining, BeyondLimit: run.BeyondLimit, Unmatchable: run.Unmatchable,
			Succeeded: run.Succeeded, Redied: run.Redied, Removed: run.Removed, Pending: run.Pending(),
		},
		Categories:   make([]valueCountJSON, len(run.Categories)),
		Fingerprints: valueCounts(run.Fingerprints), ConsumerVersions: valueCounts(run.Versions),
		OldestDiedAt: run.OldestDiedAt, NewestDiedAt: run.NewestDiedAt,
		StartedAt: run.StartedAt, CanaryPassedAt: run.CanaryPassedAt, CompletedAt: run.CompletedAt,
	}
	for i, each := range run.Categories {
		view.Categories[i] = valueCountJSON{string(each.Category), each.Count}
	}
	return view
}

func valueCounts(counts []store.ValueCount) []valueCountJSON {
	views := make([]valueCountJSON, len(counts))
	for i, each := range counts {
		views[i] = valueCountJSON(each)
	}
	return views
}

// listReplays answers a page of a queue's replay runs, newest first.
func (a *API) listReplays(c *call) error {
	q := params{values: c.query}
	before, limit := q.numberCursor(cursorReplays), q.limit()
	if err := q.err(); err != nil {
		return err
	}
	runs, err := a.backend.Runs(c.r.Context(), c.queue, before, limit+1)
	if err == nil && len(runs) == 0 {
		err = a.mustExist(c)
	}
	if err != nil {
		return err
	}
	var next *string
	if len(runs) > limit {
		runs = runs[:limit]
		cursor := numberCursor(cursorReplays, runs[limit-1].ID)
		next = &cursor
	}
	answer := runPageJSON{Replays: make([]runJSON, len(runs)), Count: len(runs), NextCursor: next}
	for i := range runs {
		answer.Replays[i] = newRunJSON(&runs[i])
	}
	return c.answer(http.StatusOK, answer)
}

// getReplay answers one run.
func (a *API) getReplay(c *call) error {
	run, err := a.run(c)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, newRunJSON(&run))
}

func (a *API) run(c *call) (store.Run, error) {
	run, err := a.backend.Run(c.r.Context(), c.queue, c.id)
	if errors.Is(err, store.ErrNotFound) {
		return run, problemNotFound("There is no replay run with this id in this queue.")
	}
	return run, err
}

// listReplayed answers a page of the letters of a run: what the run did with each, and what became of it.
func (a *API) listReplayed(c *call) error {
	q := params{values: c.query}
	after, limit := q.numberCursor(cursorReplayed), q.limit()
	if err := q.err(); err != nil {
		return err
	}
	run, err := a.run(c)
	if err != nil {
		return err
	}
	items, err := a.backend.RunItems(c.r.Context(), run.ID, after, limit+1)
	if err != nil {
		return err
	}
	var next *string
	if len(items) > limit {
		items = items[:limit]
		cursor := numberCursor(cursorReplayed, items[limit-1].Position)
		next = &cursor
	}
	answer := runItemPageJSON{Messages: make([]runItemJSON, len(items)), Count: len(items), NextCursor: next}
	for i, item := range items {
		answer.Messages[i] = runItemJSON{item.MessageID, item.State, textOrNil(item.Error), textOrNil(item.Outcome)}
	}
	return c.answer(http.StatusOK, answer)
}

type revisionBodyJSON struct {
	MessageID int64           `json:"message_id"`
	Number    int             `json:"number"`
	Payload   string          `json:"payload"`
	Encoding  payloadEncoding `json:"payload_encoding"`
	Size      int             `json:"payload_size"`
}

// getRevision answers a payload as it was before an edit.
func (a *API) getRevision(c *call) error {
	noSuchRevision := problemNotFound("There is no such revision: its number counts the edits of the message from 1.")
	raw := c.r.PathValue("number")
	number, err := strconv.Atoi(raw)
	if err != nil || number < 1 || strconv.Itoa(number) != raw || number > maxRevision {
		return noSuchRevision
	}
	payload, err := a.backend.Revision(c.r.Context(), c.queue, c.id, number)
	if errors.Is(err, store.ErrNotFound) {
		return noSuchRevision
	}
	if err != nil {
		return err
	}
	answer := revisionBodyJSON{MessageID: c.id, Number: number, Size: len(payload)}
	answer.Payload, answer.Encoding = encodePayload(payload)
	return c.answer(http.StatusOK, answer)
}

// maxRevision is more than any message has.
const maxRevision = 1 << 30
