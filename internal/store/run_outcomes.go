package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// foldOutcomesSQL takes outcomes out, of the run $1 or of any when that is 0, and adds them to the items and counters.
// The outcomes of a run that is gone are dropped.
const foldOutcomesSQL = `
WITH taken AS MATERIALIZED (
    DELETE FROM {schema}.replay_outcome WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.replay_outcome WHERE $1 = 0 OR run_id = $1 LIMIT $2
    )) RETURNING *
), item AS (
    UPDATE {schema}.replay_item i SET outcome = t.outcome, outcome_at = t.at FROM taken t
    WHERE i.run_id = t.run_id AND i.position = t.position AND i.state = 'replayed'
    RETURNING i.run_id, t.outcome
), counted AS (
    UPDATE {schema}.replay_run r
    SET succeeded = r.succeeded + n.succeeded, redied = r.redied + n.redied, removed = r.removed + n.removed
    FROM (
        SELECT run_id, count(*) FILTER (WHERE outcome = 'succeeded') AS succeeded,
            count(*) FILTER (WHERE outcome = 'redied') AS redied, count(*) FILTER (WHERE outcome = 'removed') AS removed
        FROM item GROUP BY run_id
    ) n WHERE r.id = n.run_id
)
SELECT count(*) FROM taken`

const runByIDSQL = `SELECT ` + runColumns + ` FROM {schema}.replay_run r WHERE r.id = $1`

const (
	// outcomesLock is held while the outcomes of all runs are folded.
	outcomesLock = "outcomes"
	// outcomesSlice is how many outcomes one transaction folds.
	outcomesSlice = 5000
)

// FoldOutcomes brings the counters of runs up to date with what became of their messages, up to limit outcomes, and
// returns how many it took. One process at a time does it; the others return at once.
func (s *Store) FoldOutcomes(ctx context.Context, limit int) (folded int, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		mine, err := s.tryLock(ctx, tx, outcomesLock)
		if err != nil || !mine {
			return err
		}
		return tx.QueryRow(ctx, s.sql(foldOutcomesSQL), 0, limit).Scan(&folded)
	})
	if err != nil {
		return 0, fmt.Errorf("fold replay outcomes: %w", err)
	}
	return folded, nil
}

// FollowRun returns a run with its counters as they are now.
func (s *Store) FollowRun(ctx context.Context, id int64) (Run, error) {
	for {
		run, folded, err := s.followRun(ctx, id)
		if err != nil {
			return run, fmt.Errorf("follow replay run: %w", err)
		}
		if folded < outcomesSlice {
			return run, nil
		}
	}
}

func (s *Store) followRun(ctx context.Context, id int64) (run Run, folded int, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lock(ctx, tx, outcomesLock); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, s.sql(foldOutcomesSQL), id, outcomesSlice).Scan(&folded); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		run, err = one(collect(ctx, tx, scanRun, s.sql(runByIDSQL), id))
		return err
	})
	return run, folded, err
}

//nolint:gosec // no credentials
const passCanarySQL = `
UPDATE {schema}.replay_run r SET canary_passed_at = now()
WHERE r.id = $1 AND r.state = 'Running' AND r.canary_passed_at IS NULL
    AND r.replayed >= r.canary_messages AND r.succeeded + r.redied + r.removed = r.replayed`

// PassCanary lets a run go on after its canary. It does nothing while the end of one of the canary's messages is not
// known.
func (s *Store) PassCanary(ctx context.Context, id int64) error {
	return s.changeRun(ctx, "pass the canary of a replay run", passCanarySQL, id)
}
