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
	unfinishedSQL  = `SELECT EXISTS (SELECT FROM {schema}.message WHERE queue_id = $1 AND status <> 'succeeded')`
	occupiedSQL    = `SELECT EXISTS (SELECT FROM {schema}.message WHERE queue_id = $1)`
	deleteSliceSQL = `
DELETE FROM {schema}.message WHERE id IN (
    SELECT id FROM {schema}.message WHERE queue_id = $1 AND (status = 'succeeded' OR NOT $3)
    ORDER BY id LIMIT $2 FOR UPDATE
)`
	// Inserts wait for this lock, and then find the queue gone. FOR UPDATE above waits for claims and settlements of
	// single messages; this lock does so for the rest.
	lockMessagesSQL = `LOCK TABLE {schema}.message IN SHARE ROW EXCLUSIVE MODE`
	dropDepthSQL    = `
WITH folded AS (DELETE FROM {schema}.depth WHERE queue_id = $1)
DELETE FROM {schema}.depth_delta WHERE queue_id = $1`
	dropQueueSQL = `DELETE FROM {schema}.queue WHERE id = $1`
)

// DeleteQueue removes a queue with all its messages, in slices, until it is gone or ctx ends; what was removed stays
// removed and a later call goes on. With onlyIfEmpty, a queue that holds any message that has not succeeded is left as
// it is: ErrQueueNotEmpty. An absent queue is no error; one that another resource declares is ErrNotOwner.
func (s *Store) DeleteQueue(ctx context.Context, name string, owner Owner, onlyIfEmpty bool) error {
	for {
		gone := false
		err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			gone, err = s.deleteSlice(ctx, tx, name, owner, onlyIfEmpty)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete queue: %w", err)
		}
		if gone {
			return nil
		}
	}
}

// deleteSlice removes one slice of the queue's messages, or the queue when none is left, and reports the latter.
func (s *Store) deleteSlice(ctx context.Context, tx pgx.Tx, name string, owner Owner, onlyIfEmpty bool) (bool, error) {
	var (
		id   int64
		have Owner
	)
	err := tx.QueryRow(ctx, s.sql(queueOwnerSQL+" FOR UPDATE"), name).Scan(&id, &have.Namespace, &have.Name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return true, nil
	case err != nil:
		return false, err //nolint:wrapcheck // wrapped by the caller
	case have != owner && have != Owner{}:
		return false, ErrNotOwner
	}
	if onlyIfEmpty {
		unfinished, err := s.exists(ctx, tx, unfinishedSQL, id)
		if err != nil {
			return false, err
		}
		if unfinished {
			return false, ErrQueueNotEmpty
		}
	}
	tag, err := tx.Exec(ctx, s.sql(deleteSliceSQL), id, deleteSlice, onlyIfEmpty)
	if err != nil || tag.RowsAffected() == deleteSlice {
		return false, err //nolint:wrapcheck // wrapped by the caller
	}
	return s.dropIfVacant(ctx, tx, id)
}

// dropIfVacant removes the queue's own rows if it holds no message and, by the lock, can get none.
func (s *Store) dropIfVacant(ctx context.Context, tx pgx.Tx, id int64) (bool, error) {
	if _, err := tx.Exec(ctx, s.sql(lockMessagesSQL)); err != nil {
		return false, err //nolint:wrapcheck // wrapped by the caller
	}
	occupied, err := s.exists(ctx, tx, occupiedSQL, id)
	if err != nil || occupied {
		return false, err
	}
	for _, statement := range []string{cancelQueueRunsSQL, dropDepthSQL, dropQueueSQL} {
		if _, err := tx.Exec(ctx, s.sql(statement), id); err != nil {
			return false, err //nolint:wrapcheck // wrapped by the caller
		}
	}
	return true, nil
}

func (s *Store) exists(ctx context.Context, tx pgx.Tx, statement string, id int64) (found bool, err error) {
	err = tx.QueryRow(ctx, s.sql(statement), id).Scan(&found)
	return found, err //nolint:wrapcheck // wrapped by the operation
}
