package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// RunKey names a replay run for ever: whoever asks again with the same key meets the same run.
type RunKey struct{ Queue, Namespace, Name, RunID string }

// String is the key as recorded in the history of messages.
func (k RunKey) String() string { return k.Namespace + "/" + k.Name + "/" + k.RunID }

// RunMode says whether a run moves messages.
type RunMode string

const (
	// RunPreview counts what would be replayed and moves nothing.
	RunPreview RunMode = "Preview"
	// RunExecute replays.
	RunExecute RunMode = "Execute"
)

// RunState is the state of a run.
type RunState string

const (
	// RunRunning has letters left to replay.
	RunRunning RunState = "Running"
	// RunCompleted has dealt with every selected letter.
	RunCompleted RunState = "Completed"
	// RunCancelled was stopped; letters that it had not replayed stayed dead.
	RunCancelled RunState = "Cancelled"
	// RunAborted stopped itself, because too many of what it had replayed died again. The rest stayed dead.
	RunAborted RunState = "Aborted"
)

// RunSpec is what to replay.
type RunSpec struct {
	Key RunKey
	// Hash tells one specification from another; a key keeps the hash that it started with.
	Hash   string
	Mode   RunMode
	Filter DeadLetterFilter
	// MaxMessages bounds the selection, oldest deaths first.
	MaxMessages int
	// MaxReplaysPerMessage leaves out letters that were replayed that often already.
	MaxReplaysPerMessage int
	// MessagesPerSecond is the pace, 0 for no limit. The store records it; package replay keeps it.
	MessagesPerSecond int
	Plan              RunPlan
	// Match, when set, decides on each letter that meets Filter. It returns false and an error for one that it cannot
	// decide on, which is then not selected.
	Match func(message.Message) (bool, error)
}

// RunPlan is how a run goes about its letters. It is recorded with the run, and never changes.
type RunPlan struct {
	Canary    RunCanary    `json:"canary,omitzero"`
	Abort     RunAbort     `json:"abort,omitzero"`
	Transform RunTransform `json:"transform,omitzero"`
	// Target is the queue that the messages go to, if not back to their own.
	Target string `json:"target,omitempty"`
	// Expression is the source of RunSpec.Match, for the record.
	Expression string `json:"expression,omitempty"`
}

// RunCanary has a run send a few messages first, and no more before all of them have ended.
type RunCanary struct {
	// Messages is how many; 0 is none.
	Messages int `json:"messages,omitempty"`
	// DeadlineSeconds is for how long their end is waited for before the run says that it is held up.
	DeadlineSeconds int `json:"deadline_seconds,omitempty"`
	// MaxRedeathPercent is how many of them may die again.
	MaxRedeathPercent int `json:"max_redeath_percent,omitempty"`
}

// RunAbort ends a run of whose messages too many die again.
type RunAbort struct {
	// RedeathPercent of the messages that have ended, at least MinSample, ends the run; 0 is never.
	RedeathPercent int `json:"redeath_percent,omitempty"`
	MinSample      int `json:"min_sample,omitempty"`
}

// RunTransform edits payloads; see package transform for the languages.
type RunTransform struct {
	Language string `json:"language,omitempty"`
	Program  string `json:"program,omitempty"`
}

// CategoryCount is the number of selected letters of a category.
type CategoryCount struct {
	Category message.Category `json:"category"`
	Count    int64            `json:"count"`
}

// ValueCount is the number of selected letters of a fingerprint or a consumer's version.
type ValueCount struct {
	Value string `json:"value"`
	Count int64  `json:"count"`
}

// Run is a replay run. Of one that moves letters, Matched = Replayed + Skipped + Failed + Remaining + BeyondLimit.
type Run struct {
	ID    int64
	Key   RunKey
	Mode  RunMode
	Hash  string
	State RunState
	// StartedAt is when the selection was frozen: no later death is in it.
	StartedAt   time.Time
	CompletedAt *time.Time
	// Matched is the number of letters that met the filter: the selection, the letters that were left out of it by a
	// limit per message or because another run had them, and those beyond the limit.
	Matched int64
	// BeyondLimit is the number of letters that might have been selected, were it not for MaxMessages. They stay dead.
	BeyondLimit int64
	// Replayed went back to work, Skipped was left out or had changed since, Remaining is still to do; for a
	// cancelled or aborted run Remaining stays dead. Failed stayed dead because the transform could not be applied.
	Replayed, Skipped, Failed, Remaining int64
	// Of the replayed messages, Succeeded were finished, Redied are or were dead again, Removed were purged or discarded
	// before they had ended. The others have not ended yet.
	Succeeded, Redied, Removed int64
	// Unmatchable is how many letters met the filter while the expression could not be decided for them.
	Unmatchable int64
	// CanarySentAt is when the last message of the canary went back to work, CanaryPassedAt when the run went on.
	CanarySentAt, CanaryPassedAt *time.Time
	// AbortReason says why an aborted run was.
	AbortReason string
	Plan        RunPlan
	// Categories, Fingerprints and Versions of the selection, most letters first, at most maxRunCategories of each.
	Categories                 []CategoryCount
	Fingerprints, Versions     []ValueCount
	OldestDiedAt, NewestDiedAt *time.Time
	MessagesPerSecond          int
	// Detached runs go on without the resource that asked for them.
	Detached bool
}

const runColumns = `r.id, r.queue_name, r.namespace, r.name, r.run_id, r.mode, r.spec_hash, r.state, r.started_at,
	r.completed_at, r.matched, r.replayed, r.skipped, r.remaining, r.categories, r.oldest_died_at, r.newest_died_at,
	r.messages_per_second, r.detached, r.beyond_limit, r.plan, r.failed, r.succeeded, r.redied, r.removed,
	r.unmatchable, r.canary_sent_at, r.canary_passed_at, coalesce(r.abort_reason, ''), r.fingerprints, r.versions`

// Pending is how many of the replayed messages have not ended yet.
func (r Run) Pending() int64 { return r.Replayed - r.Succeeded - r.Redied - r.Removed }

// allowance is how many letters of a batch may be replayed now: a canary that has not passed goes no further.
func (r Run) allowance(batch int) int {
	if r.Plan.Canary.Messages == 0 || r.CanaryPassedAt != nil {
		return batch
	}
	return int(min(int64(batch), max(0, int64(r.Plan.Canary.Messages)-r.Replayed)))
}

func scanRun(row pgx.CollectableRow) (Run, error) {
	var (
		r                                  Run
		categories, plan, prints, versions []byte
	)
	err := row.Scan(&r.ID, &r.Key.Queue, &r.Key.Namespace, &r.Key.Name, &r.Key.RunID, &r.Mode, &r.Hash, &r.State,
		&r.StartedAt, &r.CompletedAt, &r.Matched, &r.Replayed, &r.Skipped, &r.Remaining, &categories, &r.OldestDiedAt,
		&r.NewestDiedAt, &r.MessagesPerSecond, &r.Detached, &r.BeyondLimit, &plan, &r.Failed, &r.Succeeded, &r.Redied,
		&r.Removed, &r.Unmatchable, &r.CanarySentAt, &r.CanaryPassedAt, &r.AbortReason, &prints, &versions)
	if err != nil {
		return r, err //nolint:wrapcheck // wrapped by the operation
	}
	for _, part := range []struct {
		text []byte
		into any
	}{{categories, &r.Categories}, {plan, &r.Plan}, {prints, &r.Fingerprints}, {versions, &r.Versions}} {
		if err := json.Unmarshal(part.text, part.into); err != nil {
			return r, fmt.Errorf("decode run: %w", err)
		}
	}
	r.CanarySentAt, r.CanaryPassedAt = utc(r.CanarySentAt), utc(r.CanaryPassedAt)
	r.StartedAt, r.CompletedAt = r.StartedAt.UTC(), utc(r.CompletedAt)
	r.OldestDiedAt, r.NewestDiedAt = utc(r.OldestDiedAt), utc(r.NewestDiedAt)
	return r, nil
}

// one returns the only row, or ErrNotFound.
func one[T any](rows []T, err error) (T, error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case len(rows) == 0:
		return none, ErrNotFound
	default:
		return rows[0], nil
	}
}

const getRunSQL = `SELECT ` + runColumns + ` FROM {schema}.replay_run r
WHERE r.queue_name = $1 AND r.namespace = $2 AND r.name = $3 AND r.run_id = $4 AND r.mode = $5`

// GetRun returns the run of a key and mode, or ErrNotFound.
func (s *Store) GetRun(ctx context.Context, key RunKey, mode RunMode) (Run, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	run, err := s.getRun(ctx, s.pool, key, mode)
	if err != nil {
		return run, fmt.Errorf("read replay run: %w", err)
	}
	return run, nil
}

func (s *Store) getRun(ctx context.Context, db querier, key RunKey, mode RunMode) (Run, error) {
	return one(collect(ctx, db, scanRun, s.sql(getRunSQL), key.Queue, key.Namespace, key.Name, key.RunID, string(mode)))
}

const activeRunsSQL = `SELECT ` + runColumns + ` FROM {schema}.replay_run r WHERE r.state = 'Running' ORDER BY r.id`

// ActiveRuns returns every run that has letters left, oldest first.
func (s *Store) ActiveRuns(ctx context.Context) ([]Run, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	runs, err := collect(ctx, s.pool, scanRun, s.sql(activeRunsSQL))
	if err != nil {
		return nil, fmt.Errorf("list active replay runs: %w", err)
	}
	return runs, nil
}

const (
	setRunRateSQL = `UPDATE {schema}.replay_run SET messages_per_second = $2 WHERE id = $1 AND messages_per_second <> $2`
	detachRunSQL  = `UPDATE {schema}.replay_run SET detached = true WHERE id = $1 AND NOT detached`
	attachRunSQL  = `UPDATE {schema}.replay_run SET detached = false WHERE id = $1 AND detached`
)

// SetRunRate changes the recorded pace of a run.
func (s *Store) SetRunRate(ctx context.Context, id int64, perSecond int) error {
	return s.changeRun(ctx, "set rate of replay run", setRunRateSQL, id, perSecond)
}

// DetachRun lets a run go on without the resource that asked for it.
func (s *Store) DetachRun(ctx context.Context, id int64) error {
	return s.changeRun(ctx, "detach replay run", detachRunSQL, id)
}

// AttachRun takes a detached run back under a resource.
func (s *Store) AttachRun(ctx context.Context, id int64) error {
	return s.changeRun(ctx, "attach replay run", attachRunSQL, id)
}

func (s *Store) changeRun(ctx context.Context, doing, statement string, args ...any) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := s.pool.Exec(ctx, s.sql(statement), args...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

const (
	lockRunSQL = `SELECT ` + runColumns + ` FROM {schema}.replay_run r WHERE r.id = $1 FOR UPDATE`
	stopRunSQL = `
WITH freed AS (UPDATE {schema}.replay_item SET state = 'cancelled' WHERE run_id = $1 AND state = 'selected')
UPDATE {schema}.replay_run r SET state = $2, abort_reason = nullif($3, ''), completed_at = now() WHERE r.id = $1
RETURNING ` + runColumns
)

// CancelRun stops a run: letters not yet replayed stay dead and are free for other runs. A finished run is returned as
// it is.
func (s *Store) CancelRun(ctx context.Context, id int64) (Run, error) {
	run, err := s.stopRun(ctx, id, RunCancelled, "")
	if err != nil {
		return run, fmt.Errorf("cancel replay run: %w", err)
	}
	return run, nil
}

// AbortRun stops a run as CancelRun does, for a reason.
func (s *Store) AbortRun(ctx context.Context, id int64, reason string) (Run, error) {
	run, err := s.stopRun(ctx, id, RunAborted, reason)
	if err != nil {
		return run, fmt.Errorf("abort replay run: %w", err)
	}
	return run, nil
}

func (s *Store) stopRun(ctx context.Context, id int64, state RunState, reason string) (run Run, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		run, err = one(collect(ctx, tx, scanRun, s.sql(lockRunSQL), id))
		if err != nil || run.State != RunRunning {
			return err
		}
		run, err = one(collect(ctx, tx, scanRun, s.sql(stopRunSQL), id, string(state), reason))
		return err
	})
	return run, err
}
