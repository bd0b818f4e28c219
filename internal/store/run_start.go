package store

import (
	"context"
	"encoding/json"
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
    max_replays_per_message, messages_per_second, matched, remaining, categories, started_at, plan, canary_messages)
SELECT q.id, q.name, $2, $3, $4, $5, $6, 'Running', $7, $8, 0, 0, '[]', now(), $9, $10
FROM {schema}.queue q WHERE q.name = $1
RETURNING id`

// selectLettersSQL freezes the selection and describes it, in one snapshot. %s is the filter; $1 is the queue's name.
const selectLettersSQL = `
WITH candidate AS MATERIALIZED (
    SELECT m.id, m.dead_at, m.failure_category, m.fingerprint, m.failed_version,
        m.replay_count >= {max} OR EXISTS (
            SELECT FROM {schema}.replay_item i WHERE i.message_id = m.id AND i.state = 'selected'
        ) AS excluded
    FROM {schema}.message m WHERE {where}
), picked AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY dead_at, id) AS position
    FROM candidate WHERE NOT excluded ORDER BY dead_at, id LIMIT {limit}
), frozen AS (
    INSERT INTO {schema}.replay_item (run_id, position, message_id, died_at, state)
    SELECT {run}, position, id, dead_at, 'selected' FROM picked WHERE {execute}
), by_category AS (
    SELECT failure_category AS category, count(*) AS count FROM picked
    GROUP BY 1 ORDER BY count DESC, 1 LIMIT {categories}
), by_fingerprint AS (
    SELECT fingerprint AS value, count(*) AS count FROM picked GROUP BY 1 ORDER BY count DESC, 1 LIMIT {categories}
), by_version AS (
    SELECT coalesce(failed_version, '') AS value, count(*) AS count FROM picked
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
    fingerprints = coalesce((SELECT jsonb_agg(to_jsonb(c) ORDER BY c.count DESC, c.value) FROM by_fingerprint c), '[]'),
    versions = coalesce((SELECT jsonb_agg(to_jsonb(c) ORDER BY c.count DESC, c.value) FROM by_version c), '[]'),
    unmatchable = {unmatchable},
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
	plan, err := json.Marshal(spec.Plan)
	if err != nil {
		return Run{}, fmt.Errorf("encode plan: %w", err)
	}
	id, err := one(collect(ctx, tx, pgx.RowTo[int64], s.sql(insertRunSQL), key.Queue, key.Namespace, key.Name, key.RunID,
		string(spec.Mode), spec.Hash, spec.MaxReplaysPerMessage, spec.MessagesPerSecond, plan, spec.Plan.Canary.Messages))
	if err != nil {
		return Run{}, err
	}
	unmatchable := 0
	if spec.Match != nil {
		if spec.Filter.IDs, unmatchable, err = s.matching(ctx, tx, spec); err != nil {
			return Run{}, err
		}
	}
	args := arguments{key.Queue}
	where := spec.Filter.where(&args, queueIDSQL)
	if spec.Match != nil && len(spec.Filter.IDs) == 0 {
		where += " AND false"
	}
	statement := expand(selectLettersSQL, map[string]string{
		"where":       where,
		"max":         args.add(spec.MaxReplaysPerMessage),
		"limit":       args.add(spec.MaxMessages),
		"run":         args.add(id) + "::bigint",
		"execute":     args.add(spec.Mode == RunExecute) + "::boolean",
		"categories":  args.add(maxRunCategories),
		"unmatchable": args.add(unmatchable) + "::bigint",
	})
	return one(collect(ctx, tx, scanRun, s.sql(statement), args...))
}

const (
	// matchPage is how many letters are looked up at a time to be matched, and matchBytes how much of payloads is read
	// at a time.
	matchPage  = 1000
	matchBytes = 4 << 20
)

// letterSize is where a dead letter is in the order of deaths, and how large.
type letterSize struct {
	diedAt time.Time
	id     int64
	size   int
}

// matching returns the letters that meet the filter and for which Match says so, and how many it could not decide on.
// What dies meanwhile is not among them.
func (s *Store) matching(ctx context.Context, tx pgx.Tx, spec RunSpec) (ids []int64, unmatchable int, err error) {
	for after, more := (letterSize{}), true; more; {
		args := arguments{spec.Key.Queue}
		where := spec.Filter.where(&args, queueIDSQL) + " AND m.dead_at <= now() AND (m.dead_at, m.id) > (" +
			args.add(after.diedAt) + ", " + args.add(after.id) + ")"
		page, err := collect(ctx, tx, func(row pgx.CollectableRow) (l letterSize, err error) {
			err = row.Scan(&l.diedAt, &l.id, &l.size)
			return l, err //nolint:wrapcheck // wrapped by the operation
		}, s.sql("SELECT m.dead_at, m.id, octet_length(m.payload) FROM {schema}.message m WHERE "+where+
			" ORDER BY m.dead_at, m.id LIMIT "+args.add(matchPage)), args...)
		if err != nil {
			return nil, 0, err
		}
		more = len(page) == matchPage
		for len(page) > 0 {
			var chunk []int64
			for size := 0; len(page) > 0 && (size < matchBytes || len(chunk) == 0); page = page[1:] {
				chunk, size, after = append(chunk, page[0].id), size+page[0].size, page[0]
			}
			found, undecided, err := s.match(ctx, tx, spec, chunk)
			if err != nil {
				return nil, 0, err
			}
			ids, unmatchable = append(ids, found...), unmatchable+undecided
		}
	}
	return ids, unmatchable, nil
}

const lettersSQL = `
SELECT ` + messageColumns + ` FROM {schema}.message m WHERE m.id = ANY ($1) AND m.status = 'dead' ORDER BY m.id`

// match returns those of the letters that are still dead and match, and how many cannot be decided on.
func (s *Store) match(ctx context.Context, tx pgx.Tx, spec RunSpec, ids []int64,
) (found []int64, undecided int, err error) {
	letters, err := collect(ctx, tx, messageOf(spec.Key.Queue), s.sql(lettersSQL), ids)
	for i := range letters {
		matches, err := spec.Match(letters[i].Message)
		switch {
		case err != nil:
			undecided++
		case matches:
			found = append(found, letters[i].ID)
		}
	}
	return found, undecided, err
}
