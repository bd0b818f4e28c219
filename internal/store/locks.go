package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// tryLock takes an advisory lock until the end of the transaction, or reports that another holds it.
func (s *Store) tryLock(ctx context.Context, tx pgx.Tx, purpose string) (bool, error) {
	var mine bool
	err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", advisoryKey(purpose, s.schema)).Scan(&mine)
	return mine, err //nolint:wrapcheck // wrapped by the operation
}

// lock takes an advisory lock until the end of the transaction. It is a statement of its own, so that the next one
// sees what the holder before committed.
func (s *Store) lock(ctx context.Context, tx pgx.Tx, purpose string) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", advisoryKey(purpose, s.schema))
	return err //nolint:wrapcheck // wrapped by the operation
}
