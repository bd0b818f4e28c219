package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Messages of one group key are handed out one after the other. The table message keeps that order by itself: the
// trigger advance_groups, made by a migration, lets the next message of a group go when the one before has finished.

const lockGroupsSQL = `
SELECT pg_advisory_xact_lock(k.lock) FROM (
    SELECT DISTINCT {schema}.group_lock(m.queue_id, m.group_key) AS lock
    FROM {schema}.message m WHERE m.id = ANY ($1) AND m.group_key IS NOT NULL ORDER BY 1
) k`

// lockGroups locks the groups of messages until the end of the transaction. Whoever is about to lock messages that may
// be blocked does it first: the trigger locks them in that order.
func (s *Store) lockGroups(ctx context.Context, tx pgx.Tx, ids []int64) error {
	_, err := tx.Exec(ctx, s.sql(lockGroupsSQL), ids)
	return err //nolint:wrapcheck // wrapped by the operation
}
