package store

import (
	"context"
	"fmt"
	"time"

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

// relaxedLockSQL takes a lock for a transaction that a crash of the database may undo within a moment. That is for
// claims: all that comes of it is a redelivery. The lock is a statement of its own, so that the next one sees what the
// holder before committed.
const relaxedLockSQL = `SELECT pg_advisory_xact_lock($1), set_config('synchronous_commit', 'off', true)`

// relaxedRows takes an advisory lock and runs one statement, in one transaction and one round trip.
func relaxedRows[T any](ctx context.Context, s *Store, purpose string, scan func(pgx.CollectableRow) (T, error),
	statement string, args ...any,
) (rows []T, err error) {
	batch := &pgx.Batch{}
	batch.Queue(relaxedLockSQL, advisoryKey(purpose, s.schema))
	batch.Queue(statement, args...).Query(func(result pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(result, scan)
		return err //nolint:wrapcheck // wrapped by the caller
	})
	return rows, s.pool.SendBatch(ctx, batch).Close() //nolint:wrapcheck // wrapped by the caller
}

// lifeLock is held together by what moves messages of a queue to the table message, and alone by the end of the queue,
// after which none may arrive there.
func lifeLock(queue string) string { return "life:" + queue }

func (s *Store) shareLife(ctx context.Context, tx pgx.Tx, queue string) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock_shared($1)", advisoryKey(lifeLock(queue), s.schema))
	return err //nolint:wrapcheck // wrapped by the operation
}

// databaseTime is the database's clock.
func (s *Store) databaseTime(ctx context.Context) (now time.Time, err error) {
	if err = s.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}

// locked takes an advisory lock and runs one statement, in one transaction and one round trip.
func locked[T any](ctx context.Context, s *Store, purpose string, scan func(pgx.CollectableRow) (T, error),
	statement string, args ...any,
) (rows []T, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	batch := &pgx.Batch{}
	batch.Queue("SELECT pg_advisory_xact_lock($1)", advisoryKey(purpose, s.schema))
	batch.Queue(statement, args...).Query(func(result pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(result, scan)
		return err //nolint:wrapcheck // wrapped by the caller
	})
	err = s.pool.SendBatch(ctx, batch).Close()
	return rows, err //nolint:wrapcheck // wrapped by the caller
}
