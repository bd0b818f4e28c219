package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// selectionTimeout bounds the freezing of a selection, which may read every dead letter of a queue.
const selectionTimeout = 2 * time.Minute

// maxRunCategories bounds the categories listed for a run.
const maxRunCategories = 100

const insertRunSQL = `
INSERT INTO {schema}.replay_run (queue_id, queue_name, namespace, name, run_id, mode, spec_hash, state,
    max_replays_per_message, messages_per_second, matched, remaining, categories, started_at)
SELECT q.id, q.name, $2, $3, $4, $5, $6, 'Running', $7, $8, 0, 0, '[]', now()
FROM {schema}.queue q WHERE q.name = $1
RETURNING id`

// selectLettersSQL freezes the selection and describes it, in one snapshot. %s is the filter; $1 is the queue's name.
const selectLettersSQL = `
WITH candidate AS MATERIALIZED (
    SELECT m.id, m.dead_at, m.failure_category,
        m.replay_count >= {max} OR EXISTS (
            SELECT FROM {schema}.replay_item i WHERE i.message_id = m.id AND i.state = 'selected'
        ) AS excluded
    FROM {schema}.message m WHERE {where}
), picked AS MATERIALIZED (
    SELECT id, dead_at, failure_category, row_number() OVER (ORDER BY dead_at, id) AS position
    FROM candidate WHERE NOT excluded ORDER BY dead_at, id LIMIT {limit}
), frozen AS (
    INSERT INTO {schema}.replay_item (run_id, position, message_id, died_at, state)
    SELECT {run}, position, id, dead_at, 'selected' FROM picked WHERE {execute}
), by_category AS (
    SELECT failure_category AS category, count(*) AS count FROM picked
    GROUP BY 1 ORDER BY count DESC, 1 LIMIT {categories}
), seen AS (
    SELECT (SELECT count(*) FROM picked) AS picked, count(*) AS matched, count(*) FILTER (WHERE excluded) AS excluded
    FROM candidate
)
UPDATE {schema}.replay_run r
SET matched = seen.matched, skipped = seen.excluded,
    beyond_limit = seen.matched - seen.excluded - seen.picked,
    remaining = CASE WHEN {execute} THEN seen.picked ELSE 0 END,
    state = CASE WHEN {execute} AND seen.picked > 0 THEN 'Running' ELSE 'Completed' END,
    completed_at = CASE WHEN {execute} AND seen.picked > 0 THEN NULL ELSE now() END,
    categories = coalesce((SELECT jsonb_agg(to_jsonb(c) ORDER BY c.count DESC, c.category) FROM by_category c), '[]'),
    oldest_died_at = (SELECT min(dead_at) FROM picked), newest_died_at = (SELECT max(dead_at) FROM picked)
FROM seen WHERE r.id = {run}
RETURNING ` + runColumns

// StartRun starts the run of spec's key and mode, or returns the one that there is, whatever its specification was. A
// new run's selection is frozen in the same transaction: letters that die later are not in it. ErrNotFound means that
// there is no such queue.
func (s *Store) StartRun(ctx context.Context, spec RunSpec) (run Run, created bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, selectionTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.allow(ctx, tx, selectionTimeout); err != nil {
			return err
		}
		if err := s.lock(ctx, tx, selectionLock); err != nil {
			return err
		}
		if run, err = s.getRun(ctx, tx, spec.Key, spec.Mode); !errors.Is(err, ErrNotFound) {
			return err
		}
		run, err = s.createRun(ctx, tx, spec)
		created = err == nil
		return err
	})
	if err != nil {
		return Run{}, false, fmt.Errorf("start replay run: %w", err)
	}
	return run, created, nil
}

// allow gives the statements of this transaction another time limit.
func (s *Store) allow(ctx context.Context, tx pgx.Tx, limit time.Duration) error {
	_, err := tx.Exec(ctx, "SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true)",
		millisText(limit))
	return err //nolint:wrapcheck // wrapped by the operation
}

func (s *Store) createRun(ctx context.Context, tx pgx.Tx, spec RunSpec) (Run, error) {
	key := spec.Key
	id, err := one(collect(ctx, tx, pgx.RowTo[int64], s.sql(insertRunSQL), key.Queue, key.Namespace, key.Name, key.RunID,
		string(spec.Mode), spec.Hash, spec.MaxReplaysPerMessage, spec.MessagesPerSecond))
	if err != nil {
		return Run{}, err
	}
	args := arguments{key.Queue}
	statement := expand(selectLettersSQL, map[string]string{
		"where":      spec.Filter.where(&args, queueIDSQL),
		"max":        args.add(spec.MaxReplaysPerMessage),
		"limit":      args.add(spec.MaxMessages),
		"run":        args.add(id) + "::bigint",
		"execute":    args.add(spec.Mode == RunExecute) + "::boolean",
		"categories": args.add(maxRunCategories),
	})
	return one(collect(ctx, tx, scanRun, s.sql(statement), args...))
}
