package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// deleteSlice is how many messages one transaction removes.
const deleteSlice = 1000

const (
	cancelQueueRunsSQL = `
WITH run AS (
    UPDATE {schema}.replay_run SET state = 'Cancelled', completed_at = now()
    WHERE queue_id = $1 AND state = 'Running' RETURNING id
)
UPDATE {schema}.replay_item i SET state = 'cancelled' FROM run WHERE i.run_id = run.id AND i.state = 'selected'`
	hasMessagesSQL = `SELECT EXISTS (SELECT FROM {schema}.message WHERE queue_id = $1)`
	deleteSliceSQL = `
DELETE FROM {schema}.message WHERE id IN (
    SELECT id FROM {schema}.message WHERE queue_id = $1 ORDER BY id LIMIT $2 FOR UPDATE
)`
	// Inserts wait for this lock, and then find the queue gone.
	lockMessagesSQL = `LOCK TABLE {schema}.message IN SHARE ROW EXCLUSIVE MODE`
	dropDepthSQL    = `
WITH folded AS (DELETE FROM {schema}.depth WHERE queue_id = $1)
DELETE FROM {schema}.depth_delta WHERE queue_id = $1`
	dropQueueSQL = `DELETE FROM {schema}.queue WHERE id = $1`
)

// errMoreToDelete ends a slice after which messages are left.
var errMoreToDelete = errors.New("more to delete")

// DeleteQueue removes a queue with all its messages, in slices, until it is gone or ctx ends; what was removed stays
// removed and a later call goes on. With onlyIfEmpty, a queue that holds any message is left as it is: ErrQueueNotEmpty.
// An absent queue is no error; one that another resource declares is ErrNotOwner.
func (s *Store) DeleteQueue(ctx context.Context, name string, owner Owner, onlyIfEmpty bool) error {
	for {
		err := s.deleteSlice(ctx, name, owner, onlyIfEmpty)
		if !errors.Is(err, errMoreToDelete) {
			return err
		}
	}
}

func (s *Store) deleteSlice(ctx context.Context, name string, owner Owner, onlyIfEmpty bool) error {
	more := false
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var (
			id   int64
			have Owner
		)
		err := tx.QueryRow(ctx, s.sql(queueOwnerSQL+" FOR UPDATE"), name).Scan(&id, &have.Namespace, &have.Name)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err //nolint:wrapcheck // wrapped below
		case have != owner && have != Owner{}:
			return ErrNotOwner
		}
		if !onlyIfEmpty {
			tag, err := tx.Exec(ctx, s.sql(deleteSliceSQL), id, deleteSlice)
			if err != nil {
				return err //nolint:wrapcheck // wrapped below
			}
			if more = tag.RowsAffected() == deleteSlice; more {
				return nil
			}
		}
		return s.dropIfEmpty(ctx, tx, id, onlyIfEmpty, &more)
	})
	switch {
	case err != nil:
		return fmt.Errorf("delete queue: %w", err)
	case more:
		return errMoreToDelete
	default:
		return nil
	}
}

// dropIfEmpty removes the queue's own rows once it holds no message and, by the lock, can get none.
func (s *Store) dropIfEmpty(ctx context.Context, tx pgx.Tx, id int64, onlyIfEmpty bool, more *bool) error {
	if _, err := tx.Exec(ctx, s.sql(lockMessagesSQL)); err != nil {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	var occupied bool
	if err := tx.QueryRow(ctx, s.sql(hasMessagesSQL), id).Scan(&occupied); err != nil {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	if occupied {
		*more = !onlyIfEmpty
		if onlyIfEmpty {
			return ErrQueueNotEmpty
		}
		return nil
	}
	for _, statement := range []string{cancelQueueRunsSQL, dropDepthSQL, dropQueueSQL} {
		if _, err := tx.Exec(ctx, s.sql(statement), id); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
	}
	return nil
}
