package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

const (
	// expiryLock is held by the process that looks for expired messages.
	expiryLock = "expiry"
	// expirySlice is how many messages of the log one transaction kills, for which claims of the queue wait.
	expirySlice = 500
)

const (
	expiredRowsSQL = `
SELECT m.id FROM {schema}.message m WHERE m.status = 'pending' AND m.expires_at <= now()
ORDER BY m.expires_at LIMIT $1`

	// killRowsSQL takes the ids as $1 and the failure as $2 to $5.
	killRowsSQL = `
WITH expired AS MATERIALIZED (
    SELECT m.id FROM {schema}.message m
    WHERE m.id = ANY ($1) AND m.status = 'pending' AND m.expires_at <= now()
    ORDER BY m.id FOR UPDATE SKIP LOCKED
)
UPDATE {schema}.message m
SET status = 'dead', blocked = false, delayed = false, dead_at = now(), failure_reason = $2, failure_category = $3,
    fingerprint = $4, error_class = $5, failed_by = NULL, failed_version = NULL,
    first_failure_at = coalesce(m.first_failure_at, now()), last_failure_at = now(), updated_at = now()
FROM expired WHERE m.id = expired.id`

	// killLoggedSQL moves messages that nobody has claimed and whose time to live has passed to the table message, as dead
	// letters, under a claim of nobody's, so that the cursor passes them. A claim is a range of ids, so that the first
	// message that is to stay ends it. It takes the queue as $1, the failure as $2 to $5, the most to kill as $6 and a
	// nonce as $7.
	killLoggedSQL = `
WITH q AS MATERIALIZED (
    SELECT id, clock_timestamp() AS now FROM {schema}.queue WHERE name = $1
), reached AS MATERIALIZED (
    SELECT coalesce((SELECT last FROM {claim} WHERE queue_id = q.id ORDER BY first DESC LIMIT 1), 0) AS id FROM q
), next AS MATERIALIZED (
    SELECT l.*, (l.expires_at > (SELECT now FROM q)) IS NOT FALSE AS stays FROM {log} l
    WHERE l.queue_id = (SELECT id FROM q) AND l.id > (SELECT id FROM reached)
    ORDER BY l.id LIMIT $6
), gone AS MATERIALIZED (
    SELECT * FROM next WHERE id < coalesce((SELECT min(id) FROM next WHERE stays), 9223372036854775807)
), claim AS (
    INSERT INTO {claim} (queue_id, first, last, n, nonce, claimed_at, expires_at, instance, version)
    SELECT queue_id, min(id), max(id), count(*), $7, now(), transaction_timestamp(), '', '' FROM gone GROUP BY queue_id
), closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at) SELECT queue_id, id, true, now() FROM gone
), counted AS (
    INSERT INTO {delta} SELECT queue_id, -count(*), 0, 0, 0 FROM gone GROUP BY queue_id
)
INSERT INTO {schema}.message (id, queue_id, ready_at, status, created_at, payload, updated_at, headers, dead_at,
    max_retries, first_failure_at, failure_reason, last_failure_at, failure_category, fingerprint, error_class)
OVERRIDING SYSTEM VALUE
SELECT g.id, g.queue_id, g.created_at, 'dead', g.created_at, g.payload, q.now, g.headers, q.now,
    g.max_retries, q.now, $2, q.now, $3, $4, $5
FROM gone g, q`

	// expiringQueuesSQL names the queues whose next message in the log has expired. It looks at those alone that have, or
	// had, a time to live, and something pending.
	expiringQueuesSQL = `
SELECT q.name FROM {schema}.queue q
JOIN {schema}.depth d ON d.queue_id = q.id
WHERE (q.message_ttl_ms > 0 OR q.expiring_until IS NOT NULL) AND d.pending > 0 AND (
    SELECT l.expires_at FROM {log} l WHERE l.queue_id = q.id AND l.id > coalesce((
        SELECT last FROM {claim} k WHERE k.queue_id = q.id ORDER BY first DESC LIMIT 1), 0)
    ORDER BY l.id LIMIT 1) <= now()
ORDER BY q.name`
)

// expiryArgs are the parameters of a failure by expiry.
func expiryArgs() []any {
	return failureArgs(message.NewFailure(message.ExpiryReport(), message.Consumer{}, time.Time{}))
}

// failureArgs are a failure that no worker reported, as parameters.
func failureArgs(failure message.Failure) []any {
	return []any{failure.Reason, string(failure.Category), failure.Fingerprint, failure.ErrorClass}
}

// ExpireMessages implements Engine. One process at a time does it; the others return at once. A message of the log is
// killed when all before it are claimed or killed; no claim hands it out meanwhile.
func (s *Store) ExpireMessages(ctx context.Context, limit int) (int, error) {
	killed, mine, err := s.expireRows(ctx, limit)
	if err != nil {
		return 0, fmt.Errorf("expire messages: %w", err)
	}
	if !mine {
		return 0, nil
	}
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return killed, fmt.Errorf("expire messages: %w", err)
	}
	for _, seg := range live {
		if seg.closed {
			continue
		}
		logged, err := s.expireInSegment(ctx, seg, limit)
		if killed += logged; err != nil {
			return killed, fmt.Errorf("expire messages: %w", err)
		}
	}
	return killed, nil
}

// expireRows kills expired messages of the table message.
func (s *Store) expireRows(ctx context.Context, limit int) (killed int, mine bool, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if mine, err = s.tryLock(ctx, tx, expiryLock); err != nil || !mine {
			return err
		}
		ids, err := collect(ctx, tx, pgx.RowTo[int64], s.sql(expiredRowsSQL), limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := s.lockGroups(ctx, tx, ids); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, s.sql(killRowsSQL), append([]any{ids}, expiryArgs()...)...)
		killed = int(tag.RowsAffected())
		return err //nolint:wrapcheck // wrapped by the caller
	})
	return killed, mine, err
}

// expireInSegment kills what has expired of a segment, up to about limit of each queue.
func (s *Store) expireInSegment(ctx context.Context, seg segment, limit int) (killed int, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	queues, err := collect(ctx, s.pool, pgx.RowTo[string], s.slotSQL(expiringQueuesSQL, seg.slot))
	if err != nil {
		return 0, err
	}
	for _, queue := range queues {
		for n, sum := expirySlice, 0; n == expirySlice && sum < limit; sum += n {
			if n, err = s.killExpired(ctx, queue, seg); err != nil {
				return killed, err
			}
			killed += n
		}
	}
	return killed, nil
}

// killExpired kills the expired messages that are next in a segment of the log, and returns how many: expirySlice if
// there may be more.
func (s *Store) killExpired(ctx context.Context, queue string, seg segment) (killed int, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// As a claim, and as whatever else moves messages of the queue.
		if err := s.lock(ctx, tx, claimLock(queue)); err != nil {
			return err
		}
		if err := s.shareLife(ctx, tx, queue); err != nil {
			return err
		}
		args := append(append([]any{queue}, expiryArgs()...), expirySlice, randomNonce())
		tag, err := tx.Exec(ctx, s.slotSQL(killLoggedSQL, seg.slot), args...)
		killed = int(tag.RowsAffected())
		return err //nolint:wrapcheck // wrapped by the caller
	})
	if err != nil {
		return 0, fmt.Errorf("kill expired messages: %w", err)
	}
	return killed, nil
}
