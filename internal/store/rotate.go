package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Rotation says when the log goes on to a new segment and what becomes of old ones.
type Rotation struct {
	// SegmentIDs is how many ids a segment spans at most, while half of the slots are free.
	SegmentIDs int64
	// SegmentAge is the age at which a segment that holds something is full, or a slot's share of the longest time that a
	// queue keeps succeeded messages, if that is more: all of it must fit into the slots.
	SegmentAge time.Duration
	// Survivors is how many messages are copied out of a segment to give its slot back; one with more stays.
	Survivors int64
	// Patience is how long a segment with survivors is waited for, unless slots run out.
	Patience time.Duration
}

// DefaultRotation is what the data plane runs with.
func DefaultRotation() Rotation {
	return Rotation{SegmentIDs: 1_000_000, SegmentAge: 5 * time.Minute, Survivors: 10_000, Patience: 5 * time.Minute}
}

// RotationResult is what a pass did.
type RotationResult struct {
	// Opened says that a segment was opened; Freed is how many gave their slot back.
	Opened bool
	Freed  int
	// Removed is how many succeeded messages went with them, Moved how many survived in the table message.
	Removed, Moved int64
}

const (
	rotateLock = "rotate"
	// scarceSlots is how many free slots are few.
	scarceSlots = 2
	// rotateWait bounds the waits for locks: whoever works with a segment is never kept waiting for long.
	rotateWait = 200 * time.Millisecond
	// countTimeout bounds the counting of a segment.
	countTimeout = 2 * time.Minute
)

// RotateLog opens a new segment when the current one is full or old, and frees the slots of segments in which every
// message is closed and none is kept any longer. One process at a time does it; the others return at once.
//
// A succeeded message is removed with its segment, so it may outlive its retention by the time that others in the
// segment are kept.
func (s *Store) RotateLog(ctx context.Context, rotation Rotation) (RotationResult, error) {
	var result RotationResult
	if err := (rotator{s, rotation}).run(ctx, &result); err != nil {
		return result, fmt.Errorf("rotate log: %w", err)
	}
	return result, nil
}

// rotator is one pass of rotation.
type rotator struct {
	*Store
	Rotation
}

func (r rotator) run(ctx context.Context, result *RotationResult) error {
	live, err := r.reloadSegments(ctx, r.pool)
	if err != nil {
		return err
	}
	used := len(live)
	for i, seg := range live[:len(live)-1] {
		scarce := slots-used < scarceSlots
		freed, err := r.free(ctx, seg, live[i+1].openedAt, scarce, result)
		if err != nil {
			return fmt.Errorf("free segment %d: %w", seg.no, err)
		}
		if freed {
			used--
			result.Freed++
		}
	}
	if used == slots {
		return nil // The current segment goes on until one is free.
	}
	result.Opened, err = r.open(ctx, live.current())
	if err == nil && (result.Opened || result.Freed > 0) {
		_, err = r.reloadSegments(ctx, r.pool)
	}
	return err
}

// alone runs f in a transaction, if no other pass is at work, with a bound on waits for locks. A lock that is not to be
// had in time is no error: someone reads the tables, a backup perhaps, and there is another pass.
func (r rotator) alone(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		mine, err := r.tryLock(ctx, tx, rotateLock)
		if err != nil || !mine {
			return err
		}
		if _, err := tx.Exec(ctx, passSettingsSQL, millisText(countTimeout), millisText(rotateWait)); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		return f(ctx, tx)
	})
	if isLockTimeout(err) {
		return nil
	}
	return err //nolint:wrapcheck // wrapped by the caller
}

// passSettingsSQL gives a transaction time, and lets it read whole tables in the way that is best for that.
//
//nolint:gosec // no credentials
const passSettingsSQL = `
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
    set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true)`

const openSegmentSQL = `
INSERT INTO {schema}.segment (no, slot, first_id)
SELECT $1 + 1, (SELECT min(s) FROM generate_series(0, $2 - 1) s WHERE s NOT IN (SELECT slot FROM {schema}.segment)),
    nextval('{schema}.message_id_seq')
FROM {schema}.segment current, {schema}.message_id_seq ids
WHERE current.no = $1 AND ids.last_value >= current.first_id
    AND (ids.last_value - current.first_id + 1 >= $3 AND (SELECT count(*) FROM {schema}.segment) <= $2 / 2
        OR current.opened_at <= now() - interval '1 millisecond' * greatest($4,
            (SELECT max(succeeded_retention_ms) FROM {schema}.queue) / ($2 - 2)))
    AND EXISTS (SELECT FROM {log})`

// open opens the next segment if it is time. Whatever was added to the current one is committed by then.
func (r rotator) open(ctx context.Context, current segment) (opened bool, err error) {
	err = r.alone(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := r.lock(ctx, tx, segmentLock); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, r.slotSQL(openSegmentSQL, current.slot), current.no, slots, r.SegmentIDs,
			millis(r.SegmentAge))
		opened = tag.RowsAffected() > 0
		return err //nolint:wrapcheck // wrapped by the caller
	})
	return opened, err
}

// census is what a segment holds that must be kept.
type census struct {
	survivors int64
	now       time.Time
}

// removable reports whether the segment may go now, what survives it being moved.
func (c census) removable(rotation Rotation, closedAt time.Time, scarce bool) bool {
	if c.survivors == 0 {
		return true
	}
	return c.survivors <= rotation.Survivors && (scarce || c.now.Sub(closedAt) >= rotation.Patience)
}

// A message survives its segment when it is not closed, or has succeeded too recently. What a deleted queue left behind
// does not.
const censusSQL = `
SELECT coalesce(sum(l.n - coalesce(x.n, 0) + coalesce(x.kept, 0)), 0)::bigint, now()
FROM (SELECT queue_id, count(*) AS n FROM {log} GROUP BY queue_id) l
JOIN {schema}.queue q ON q.id = l.queue_id
LEFT JOIN (
    SELECT x.queue_id, count(*) AS n, count(*) FILTER (
        WHERE NOT x.moved AND x.closed_at > now() - k.succeeded_retention_ms * interval '1 millisecond') AS kept
    FROM {closed} x JOIN {schema}.queue k ON k.id = x.queue_id GROUP BY x.queue_id
) x ON x.queue_id = l.queue_id`

const (
	lockSlotSQL = `LOCK TABLE {log}, {claim}, {closed}, {delta} IN ACCESS EXCLUSIVE MODE`

	// uncountSQL takes what the segment holds out of the counters; what survives is counted as it arrives elsewhere. The
	// ids beyond the last claim are pending, and what a claim covers is processing until it is closed.
	uncountSQL = `
WITH gone AS (
    SELECT l.queue_id, l.n - coalesce(c.n, 0) AS pending, coalesce(c.n, 0) - coalesce(x.n, 0) AS processing,
        coalesce(x.succeeded, 0) AS succeeded
    FROM (SELECT queue_id, count(*) AS n FROM {log} GROUP BY queue_id) l
    LEFT JOIN (SELECT queue_id, sum(n) AS n FROM {claim} GROUP BY queue_id) c ON c.queue_id = l.queue_id
    LEFT JOIN (
        SELECT queue_id, count(*) AS n, count(*) FILTER (WHERE NOT moved) AS succeeded FROM {closed} GROUP BY queue_id
    ) x ON x.queue_id = l.queue_id
), counted AS (
    INSERT INTO {schema}.depth_delta
    SELECT queue_id, -pending, -processing, -succeeded, 0 FROM gone
    UNION ALL SELECT queue_id, sum(pending), sum(processing), sum(succeeded), sum(dead) FROM {delta} GROUP BY queue_id
)
SELECT coalesce(sum(succeeded), 0)::bigint FROM gone`

	emptySlotSQL = `TRUNCATE {log}, {claim}, {closed}, {delta}`

	dropSegmentSQL = `DELETE FROM {schema}.segment WHERE no = $1`
)

// surviveSQL copies what must be kept to the table message, each in its state.
var surviveSQL = `
WITH kept AS (
    INSERT INTO {schema}.message (id, queue_id, status, payload, headers, max_retries, delivery_count, attempt_count,
    ready_at, lease_token, lease_expires_at, claimed_at, claimed_by, claimed_version, succeeded_at, created_at,
    updated_at)
OVERRIDING SYSTEM VALUE
SELECT l.id, l.queue_id,
    CASE WHEN x.id IS NOT NULL THEN 'succeeded' WHEN c.first IS NOT NULL THEN 'processing' ELSE 'pending' END,
    l.payload, l.headers, l.max_retries, num_nonnulls(c.first), num_nonnulls(c.last), l.created_at,
    CASE WHEN ` + leasedSQL + ` THEN (` + logTokenSQL + `)::uuid END, CASE WHEN ` + leasedSQL + ` THEN c.expires_at END,
    c.claimed_at, c.instance, c.version, x.closed_at, l.created_at, coalesce(x.closed_at, c.claimed_at, l.created_at)
FROM {log} l
JOIN {schema}.queue q ON q.id = l.queue_id
LEFT JOIN {closed} x ON x.queue_id = l.queue_id AND x.id = l.id
LEFT JOIN LATERAL (
    SELECT * FROM {claim} k WHERE k.queue_id = l.queue_id AND k.first <= l.id ORDER BY k.first DESC LIMIT 1
) c ON c.last >= l.id
WHERE x.moved IS NOT TRUE
    AND (x.id IS NULL OR x.closed_at > now() - q.succeeded_retention_ms * interval '1 millisecond')
RETURNING status
)
SELECT count(*), count(*) FILTER (WHERE status = 'succeeded') FROM kept`

// free empties a segment's tables and gives the slot back, if nothing or little survives, in one transaction. Calls
// that wait for the tables meanwhile find a survivor where it is then.
func (r rotator) free(ctx context.Context, seg segment, closedAt time.Time, scarce bool, result *RotationResult,
) (freed bool, err error) {
	var removed, moved int64
	err = r.alone(ctx, func(ctx context.Context, tx pgx.Tx) error {
		freed = false
		c, err := r.count(ctx, tx, seg)
		if err != nil || !c.removable(r.Rotation, closedAt, scarce) {
			return err
		}
		tag, err := tx.Exec(ctx, r.sql(dropSegmentSQL), seg.no)
		if err != nil || tag.RowsAffected() == 0 {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		if _, err := tx.Exec(ctx, r.slotSQL(lockSlotSQL, seg.slot)); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		if err := tx.QueryRow(ctx, r.slotSQL(uncountSQL, seg.slot)).Scan(&removed); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		if c.survivors > 0 {
			var kept int64
			if err := tx.QueryRow(ctx, r.slotSQL(surviveSQL, seg.slot)).Scan(&moved, &kept); err != nil {
				return err //nolint:wrapcheck // wrapped by the caller
			}
			removed -= kept
		}
		_, err = tx.Exec(ctx, r.slotSQL(emptySlotSQL, seg.slot))
		freed = err == nil
		return err //nolint:wrapcheck // wrapped by the caller
	})
	if err != nil || !freed {
		return false, err
	}
	result.Removed += removed
	result.Moved += moved
	return true, nil
}

// count takes the census of a segment to which nothing is added any more.
func (r rotator) count(ctx context.Context, tx pgx.Tx, seg segment) (c census, err error) {
	err = tx.QueryRow(ctx, r.slotSQL(censusSQL, seg.slot)).Scan(&c.survivors, &c.now)
	return c, err //nolint:wrapcheck // wrapped by the caller
}
