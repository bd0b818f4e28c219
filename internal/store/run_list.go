package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	queueRunsSQL = `SELECT ` + runColumns + ` FROM {schema}.replay_run r
WHERE r.queue_name = $1 AND ($2 = 0 OR r.id < $2) ORDER BY r.id DESC LIMIT $3`

	queueRunSQL = `SELECT ` + runColumns + ` FROM {schema}.replay_run r WHERE r.queue_name = $1 AND r.id = $2`
)

// Runs returns up to limit runs of a queue, newest first, those before a run's id, or all when that is 0. They outlive
// the queue.
func (s *Store) Runs(ctx context.Context, queue string, before int64, limit int) ([]Run, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	runs, err := collect(ctx, s.pool, scanRun, s.sql(queueRunsSQL), queue, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list replay runs: %w", err)
	}
	return runs, nil
}

// Run returns a run of a queue, or ErrNotFound.
func (s *Store) Run(ctx context.Context, queue string, id int64) (Run, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	run, err := one(collect(ctx, s.pool, scanRun, s.sql(queueRunSQL), queue, id))
	if err != nil {
		return run, fmt.Errorf("read replay run: %w", err)
	}
	return run, nil
}

// RunItem is one letter of a run.
type RunItem struct {
	// Position is its place in the run, from 1.
	Position  int64
	MessageID int64
	// State is what the run did: "selected" nothing so far, "replayed", "skipped", "failed" or "cancelled".
	State string
	// Error says why a failed one stayed dead.
	Error string
	// Outcome is what became of a replayed one: "succeeded", "redied", "removed", or "" while it has not ended.
	Outcome string
}

const runItemsSQL = `
SELECT position, message_id, state, coalesce(error, ''), coalesce(outcome, '') FROM {schema}.replay_item
WHERE run_id = $1 AND position > $2 ORDER BY position LIMIT $3`

// RunItems returns up to limit letters of a run, in the order of their deaths, after a position.
func (s *Store) RunItems(ctx context.Context, id, after int64, limit int) ([]RunItem, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	items, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (item RunItem, err error) {
		err = row.Scan(&item.Position, &item.MessageID, &item.State, &item.Error, &item.Outcome)
		return item, err //nolint:wrapcheck // wrapped below
	}, s.sql(runItemsSQL), id, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list items of replay run: %w", err)
	}
	return items, nil
}
