package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// foldLimit is how many deltas one fold takes.
const foldLimit = 50_000

// foldLock is held while deltas are folded.
const foldLock = "fold"

// foldDepthSQL takes deltas of one table. What is left of a deleted queue is dropped.
const foldDepthSQL = `
WITH taken AS (
    DELETE FROM %[1]s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %[1]s LIMIT $1))
    RETURNING *
)
INSERT INTO {schema}.depth AS d
SELECT queue_id, sum(pending), sum(processing), sum(succeeded), sum(dead) FROM taken
WHERE EXISTS (SELECT FROM {schema}.queue q WHERE q.id = queue_id) GROUP BY queue_id
ON CONFLICT (queue_id) DO UPDATE SET
    pending = d.pending + excluded.pending, processing = d.processing + excluded.processing,
    succeeded = d.succeeded + excluded.succeeded, dead = d.dead + excluded.dead`

var (
	foldOtherSQL = fmt.Sprintf(foldDepthSQL, "{schema}.depth_delta")
	foldLogSQL   = fmt.Sprintf(foldDepthSQL, "{delta}")
)

// FoldDepth adds the appended deltas to the counters. One process at a time does it; the others return at once.
func (s *Store) FoldDepth(ctx context.Context) error {
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return fmt.Errorf("fold depth: %w", err)
	}
	statements := []string{s.sql(foldOtherSQL)}
	for _, seg := range live {
		statements = append(statements, s.slotSQL(foldLogSQL, seg.slot))
	}
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		mine, err := s.tryLock(ctx, tx, foldLock)
		if err != nil || !mine {
			return err
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement, foldLimit); err != nil {
				return err //nolint:wrapcheck // wrapped below
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("fold depth: %w", err)
	}
	return nil
}
