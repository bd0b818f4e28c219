package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// RetentionResult is how many messages a pass of retention removed.
type RetentionResult struct{ Succeeded, Dead int }

// The selection lock is shared with StartRun: a letter is either selected before this statement's snapshot, and kept,
// or removed before the selection's.
const selectionLock = "selection"

const (
	expireSucceededSQL = `
DELETE FROM {schema}.message WHERE id IN (
    SELECT old.id FROM {schema}.queue q CROSS JOIN LATERAL (
        SELECT m.id FROM {schema}.message m
        WHERE m.queue_id = q.id AND m.status = 'succeeded'
            AND m.succeeded_at <= now() - q.succeeded_retention_ms * interval '1 millisecond'
        ORDER BY m.succeeded_at LIMIT $1 FOR UPDATE SKIP LOCKED
    ) old LIMIT $1
)`
	expireDeadSQL = `
DELETE FROM {schema}.message WHERE id IN (
    SELECT old.id FROM {schema}.queue q CROSS JOIN LATERAL (
        SELECT m.id FROM {schema}.message m
        WHERE m.queue_id = q.id AND m.status = 'dead'
            AND m.dead_at <= now() - q.dead_retention_ms * interval '1 millisecond'
            AND NOT EXISTS (SELECT FROM {schema}.replay_item i WHERE i.message_id = m.id AND i.state = 'selected')
        ORDER BY m.dead_at LIMIT $1 FOR UPDATE SKIP LOCKED
    ) old WHERE q.on_dead_expiry = 'Delete' LIMIT $1
)`
)

// EnforceRetention removes up to limit succeeded messages and up to limit dead letters whose retention has passed. The
// clock of a dead letter starts at its death. Leased messages are never touched, nor letters selected by a running
// replay. One process at a time does it; the others return at once.
func (s *Store) EnforceRetention(ctx context.Context, limit int) (RetentionResult, error) {
	var result RetentionResult
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		mine, err := s.tryLock(ctx, tx, selectionLock)
		if err != nil || !mine {
			return err
		}
		succeeded, err := tx.Exec(ctx, s.sql(expireSucceededSQL), limit)
		if err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		dead, err := tx.Exec(ctx, s.sql(expireDeadSQL), limit)
		if err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		if _, err := tx.Exec(ctx, s.sql(forgetKeysSQL), millis(KeyWindow), limit); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		result = RetentionResult{Succeeded: int(succeeded.RowsAffected()), Dead: int(dead.RowsAffected())}
		return nil
	})
	if err != nil {
		return RetentionResult{}, fmt.Errorf("enforce retention: %w", err)
	}
	return result, nil
}
