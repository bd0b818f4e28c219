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
	occupiedSQL  = `SELECT EXISTS (SELECT FROM {schema}.message WHERE queue_id = $1)`
	removableSQL = `
SELECT id FROM {schema}.message WHERE queue_id = $1 AND (status = 'succeeded' OR NOT $3) ORDER BY id LIMIT $2`
	deleteSliceSQL = `
DELETE FROM {schema}.message WHERE id IN (
    SELECT id FROM {schema}.message WHERE id = ANY ($1) AND queue_id = $3 AND (status = 'succeeded' OR NOT $2)
    ORDER BY id FOR UPDATE SKIP LOCKED
)`
	dropDepthSQL = `
WITH folded AS (DELETE FROM {schema}.depth WHERE queue_id = $1)
DELETE FROM {schema}.depth_delta WHERE queue_id = $1`
	dropQueueSQL = `DELETE FROM {schema}.queue WHERE id = $1`
)

// DeleteQueue removes a queue with all its messages, in slices, until it is gone or ctx ends; what was removed stays
// removed and a later call goes on. With onlyIfEmpty, a queue that holds any message that has not succeeded is left as
// it is: ErrQueueNotEmpty. An absent queue is no error; one that another resource declares is ErrNotOwner.
//
// Other queues never wait for it: it locks what is this queue's alone.
func (s *Store) DeleteQueue(ctx context.Context, name string, owner Owner, onlyIfEmpty bool) error {
	d := deletion{Store: s, name: name, owner: owner, onlyIfEmpty: onlyIfEmpty}
	steps := []func(context.Context, pgx.Tx) (bool, error){d.cancelRuns, d.deleteSlice, d.dropIfVacant}
	for {
		gone := false
		for _, step := range steps {
			more := true
			for more && !gone {
				err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
					more, err = step(ctx, tx)
					if errors.Is(err, errQueueGone) {
						gone, err = true, nil
					}
					return err
				})
				if err != nil {
					return fmt.Errorf("delete queue: %w", err)
				}
			}
		}
		if gone {
			return nil
		}
	}
}

// errQueueGone ends a deletion.
var errQueueGone = errors.New("queue is gone")

// deletion is the removal of one queue. Each step is a transaction of its own and reports whether it is to be repeated.
type deletion struct {
	*Store

	name        string
	owner       Owner
	onlyIfEmpty bool
}

// lockQueue locks the queue's row and checks that it may be deleted.
func (d deletion) lockQueue(ctx context.Context, tx pgx.Tx) (int64, error) {
	var (
		id   int64
		have Owner
	)
	err := tx.QueryRow(ctx, d.sql(queueOwnerSQL+" FOR UPDATE"), d.name).Scan(&id, &have.Namespace, &have.Name)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, errQueueGone
	case err != nil:
		return 0, err //nolint:wrapcheck // wrapped by the caller
	case have != d.owner && have != Owner{}:
		return 0, ErrNotOwner
	}
	if d.onlyIfEmpty {
		unfinished, err := d.unfinished(ctx, tx)
		if err != nil {
			return 0, err
		}
		if unfinished {
			return 0, ErrQueueNotEmpty
		}
	}
	return id, nil
}

// unfinished reports whether the queue holds a message that has not succeeded, by its counters.
func (d deletion) unfinished(ctx context.Context, tx pgx.Tx) (bool, error) {
	live, err := readSegments(ctx, tx, d.sql(segmentsSQL))
	if err != nil {
		return false, err
	}
	info, err := one(collect(ctx, tx, scanQueueInfo, d.qualify(oneQueueSQL(live)), d.name))
	return info.Depth.Pending+info.Depth.Processing+info.Depth.Dead > 0, err
}

// cancelRuns ends the queue's replay runs. It comes first, with no message locked: a run's step locks the run before
// its messages. A run that starts later finds its letters gone and skips them.
func (d deletion) cancelRuns(ctx context.Context, tx pgx.Tx) (bool, error) {
	id, err := d.lockQueue(ctx, tx)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, d.sql(cancelQueueRunsSQL), id)
	return false, err //nolint:wrapcheck // wrapped by the caller
}

// deleteSlice removes one slice of the queue's messages. It passes over what another has in hand, who may wait for the
// groups' locks that it holds, and leaves alone what a replay has put into another queue meanwhile.
func (d deletion) deleteSlice(ctx context.Context, tx pgx.Tx) (bool, error) {
	id, err := d.lockQueue(ctx, tx)
	if err != nil {
		return false, err
	}
	ids, err := collect(ctx, tx, pgx.RowTo[int64], d.sql(removableSQL), id, deleteSlice, d.onlyIfEmpty)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	if err := d.lockGroups(ctx, tx, ids); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, d.sql(deleteSliceSQL), ids, d.onlyIfEmpty, id)
	return len(ids) == deleteSlice, err //nolint:wrapcheck // wrapped by the caller
}

// dropIfVacant removes the queue's own rows if the table message holds nothing of it and, by the queue's locks, can get
// nothing. What the log holds is nobody's then and goes with its segment. It takes the lock of the fold too, which
// would otherwise bring back the depth.
func (d deletion) dropIfVacant(ctx context.Context, tx pgx.Tx) (bool, error) {
	for _, purpose := range []string{foldLock, queueLock(d.name), lifeLock(d.name)} {
		if err := d.lock(ctx, tx, purpose); err != nil {
			return false, err
		}
	}
	id, err := d.lockQueue(ctx, tx)
	if err != nil {
		return false, err
	}
	occupied, err := d.exists(ctx, tx, occupiedSQL, id)
	if err != nil || occupied {
		return false, err
	}
	for _, statement := range []string{dropDepthSQL, dropQueueSQL} {
		if _, err := tx.Exec(ctx, d.sql(statement), id); err != nil {
			return false, err //nolint:wrapcheck // wrapped by the caller
		}
	}
	return false, nil
}

func (s *Store) exists(ctx context.Context, tx pgx.Tx, statement string, id int64) (found bool, err error) {
	err = tx.QueryRow(ctx, s.sql(statement), id).Scan(&found)
	return found, err //nolint:wrapcheck // wrapped by the operation
}
