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

const foldDepthSQL = `
WITH taken AS (
    DELETE FROM {schema}.depth_delta WHERE ctid = ANY (ARRAY(SELECT ctid FROM {schema}.depth_delta LIMIT $1))
    RETURNING *
)
INSERT INTO {schema}.depth AS d
SELECT queue_id, sum(pending), sum(processing), sum(succeeded), sum(dead) FROM taken GROUP BY queue_id
ON CONFLICT (queue_id) DO UPDATE SET
    pending = d.pending + excluded.pending, processing = d.processing + excluded.processing,
    succeeded = d.succeeded + excluded.succeeded, dead = d.dead + excluded.dead`

// FoldDepth adds the appended deltas to the counters. One process at a time does it; the others return at once.
func (s *Store) FoldDepth(ctx context.Context) error {
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		mine, err := s.tryLock(ctx, tx, foldLock)
		if err != nil || !mine {
			return err
		}
		_, err = tx.Exec(ctx, s.sql(foldDepthSQL), foldLimit)
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return fmt.Errorf("fold depth: %w", err)
	}
	return nil
}
