package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// purgeSlice is how many messages one transaction of a purge removes.
const purgeSlice = 1000

// The statements take the queue as $1, the bound in time as $2 and the most to remove as $3. Those of the log take the
// last id looked at as $4 and a nonce as $5. They return the ids that they removed.
const (
	// purgePendingLogSQL passes over messages that nobody has claimed: a claim of nobody's, closed at once, as when a
	// message moves to the table message, only that it does not arrive there. A claim is a range of ids, so that the first
	// message that is to stay ends it.
	purgePendingLogSQL = `
WITH q AS MATERIALIZED (SELECT id FROM {schema}.queue WHERE name = $1), reached AS MATERIALIZED (
    SELECT coalesce((SELECT last FROM {claim} WHERE queue_id = q.id ORDER BY first DESC LIMIT 1), 0) AS id FROM q
), next AS MATERIALIZED (
    SELECT l.queue_id, l.id, l.created_at >= $2 AS stays FROM {log} l
    WHERE l.queue_id = (SELECT id FROM q) AND l.id > greatest($4::bigint, (SELECT id FROM reached))
    ORDER BY l.id LIMIT $3
), gone AS MATERIALIZED (
    SELECT queue_id, id FROM next
    WHERE id < coalesce((SELECT min(id) FROM next WHERE stays), 9223372036854775807)
), claim AS (
    INSERT INTO {claim} (queue_id, first, last, n, nonce, claimed_at, expires_at, instance, version)
    SELECT queue_id, min(id), max(id), count(*), $5::bigint, now(), transaction_timestamp(), '', ''
    FROM gone GROUP BY queue_id
), closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at) SELECT queue_id, id, true, now() FROM gone
), counted AS (
    INSERT INTO {delta} SELECT queue_id, -count(*), 0, 0, 0 FROM gone GROUP BY queue_id
)
SELECT id FROM gone`

	purgeSucceededLogSQL = `
WITH gone AS (
    UPDATE {closed} x SET moved = true WHERE (x.queue_id, x.id) IN (
        SELECT k.queue_id, k.id FROM {closed} k
        WHERE k.queue_id = ` + queueIDSQL + ` AND k.id > $4 AND NOT k.moved AND k.closed_at < $2
            AND $5::bigint IS NOT NULL
        ORDER BY k.id LIMIT $3
    ) AND NOT x.moved RETURNING x.queue_id, x.id
), counted AS (
    INSERT INTO {delta} SELECT queue_id, 0, 0, -count(*), 0 FROM gone GROUP BY queue_id
)
SELECT id FROM gone`

	// The statements on the table message take a condition on a message m, and an order. The second takes the ids as $4,
	// and passes over what another has in hand.
	purgeableSQL = `
SELECT m.id FROM {schema}.message m WHERE m.queue_id = ` + queueIDSQL + ` AND %s ORDER BY %s LIMIT $3`

	purgeRowsSQL = `
DELETE FROM {schema}.message WHERE id IN (
    SELECT m.id FROM {schema}.message m
    WHERE m.id = ANY ($4) AND m.queue_id = ` + queueIDSQL + ` AND %s
    ORDER BY m.id LIMIT $3 FOR UPDATE SKIP LOCKED
)`
)

// purge is how the messages of one status are removed: from the table message, the ones that meet a condition, in an
// order that an index knows; and from the log, by a statement under a lock.
type purge struct{ condition, order, log, lock string }

func purgeableStatement(how purge) string { return fmt.Sprintf(purgeableSQL, how.condition, how.order) }

func purgeRowsStatement(how purge) string { return fmt.Sprintf(purgeRowsSQL, how.condition) }

var purges = map[message.Status]purge{
	// Since when a message has its status: a dead letter that is replayed during a purge of pending messages is not one of
	// those that were meant.
	message.Pending: {
		condition: `m.status = 'pending' AND m.updated_at < $2`, order: "m.id",
		log: purgePendingLogSQL,
	},
	message.Succeeded: {
		condition: `m.status = 'succeeded' AND m.succeeded_at < $2`, order: "m.succeeded_at",
		// Rotation counts what has succeeded before it empties a segment, and nothing may change between.
		log: purgeSucceededLogSQL, lock: rotateLock,
	},
	message.Dead: {
		condition: `m.status = 'dead' AND m.dead_at < $2 AND NOT EXISTS (
        SELECT FROM {schema}.replay_item i WHERE i.message_id = m.id AND i.state = 'selected')`,
		order: "m.dead_at, m.id",
	},
}

// PurgeResult is what a purge removed.
type PurgeResult struct {
	Removed int64
	// Before is the bound: messages that have had the status since before it are removed.
	Before time.Time
	// Complete says that nothing is left to remove; else ctx ended first, and a call with the same Before goes on.
	Complete bool
}

// Purge removes the messages of a queue that have been pending, succeeded or dead, as scope says, since before a point
// in time; the zero time and the future stand for now, so that nothing that comes meanwhile is removed. No message of
// another status is touched, nor a dead letter that a running replay has selected. It works in slices, so that others
// wait a moment at most, until nothing is left or ctx ends: what was removed stays removed.
func (s *Store) Purge(ctx context.Context, queue string, scope message.Status, before time.Time) (PurgeResult, error) {
	result := PurgeResult{Before: before.UTC()}
	how, ok := purges[scope]
	if how.lock == "" {
		how.lock = claimLock(queue)
	}
	if !ok {
		return result, fmt.Errorf("purge: %q is no scope", scope)
	}
	now, err := s.databaseTime(ctx)
	if err != nil {
		return result, err
	}
	if before.IsZero() || before.After(now) {
		result.Before = now.UTC()
	}
	err = s.purgeAll(ctx, queue, how, &result)
	if err != nil && ctx.Err() == nil {
		return result, fmt.Errorf("purge: %w", err)
	}
	result.Complete = err == nil
	return result, nil
}

// purgeAll goes through the log first: what rotation moves meanwhile, it moves to the table message.
func (s *Store) purgeAll(ctx context.Context, queue string, how purge, result *PurgeResult) error {
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return err
	}
	for _, seg := range live {
		if how.log == "" {
			break
		}
		if err := s.purgeSegment(ctx, queue, how.lock, s.slotSQL(how.log, seg.slot), result); err != nil {
			return err
		}
	}
	for {
		removed, left, err := s.purgeRows(ctx, queue, how, result.Before)
		result.Removed += removed
		if err != nil || left == 0 && removed < purgeSlice {
			return err
		}
		if removed == 0 {
			// All that is left is in somebody's hand, for a moment.
			if err := sleep(ctx, purgePause); err != nil {
				return err
			}
		}
	}
}

// purgePause is how long a purge waits for those who have messages in hand.
const purgePause = 20 * time.Millisecond

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// purgeRows removes a slice from the table message. It passes over what another has in hand, and returns how many that
// were.
func (s *Store) purgeRows(ctx context.Context, queue string, how purge, before time.Time,
) (removed, left int64, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lock(ctx, tx, selectionLock); err != nil {
			return err
		}
		ids, err := collect(ctx, tx, pgx.RowTo[int64], s.sql(purgeableStatement(how)),
			queue, before, purgeSlice)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := s.lockGroups(ctx, tx, ids); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, s.sql(purgeRowsStatement(how)), queue, before, purgeSlice, ids)
		removed = tag.RowsAffected()
		left = int64(len(ids)) - removed
		return err //nolint:wrapcheck // wrapped by the operation
	})
	return removed, left, err
}

// purgeSegment removes messages of one segment. Whoever wants the lock waits for a slice at most.
func (s *Store) purgeSegment(ctx context.Context, queue, lock, statement string, result *PurgeResult) error {
	for last := int64(0); ; {
		removed, err := s.purgeOnce(ctx, lock, statement, queue, result.Before, purgeSlice, last, randomNonce())
		result.Removed += int64(len(removed))
		if err != nil || len(removed) < purgeSlice {
			return err
		}
		for _, id := range removed {
			last = max(last, id)
		}
	}
}

func (s *Store) purgeOnce(ctx context.Context, purpose, statement string, args ...any) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return locked(ctx, s, purpose, pgx.RowTo[int64], statement, args...)
}
