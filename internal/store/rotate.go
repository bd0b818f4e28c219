package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	// Rest is how many times as long as counting a segment took it is not counted again.
	Rest int
}

// DefaultRotation is what the data plane runs with.
func DefaultRotation() Rotation {
	return Rotation{
		SegmentIDs: 1_000_000, SegmentAge: 5 * time.Minute, Survivors: 10_000, Patience: 5 * time.Minute, Rest: 50,
	}
}

// RotationResult is what a pass did.
type RotationResult struct {
	// Opened says that a segment was opened; Freed is how many gave their slot back.
	Opened bool
	Freed  int
	// Removed is how many succeeded messages went with them, Moved how many survive in the table message.
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

// rotationState remembers when a segment is to be counted again.
type rotationState struct {
	mu   sync.Mutex
	next map[int64]time.Time
}

// RotateLog opens a new segment when the current one is full or old, and frees the slots of segments in which every
// message is closed and none is kept any longer. What little survives is moved to the table message. One process at a
// time does it; the others return at once.
//
// A succeeded message is removed with its segment, so it may outlive its retention by the time that others in the
// segment are kept.
func (s *Store) RotateLog(ctx context.Context, rotation Rotation) (RotationResult, error) {
	var result RotationResult
	s.rotation.mu.Lock()
	defer s.rotation.mu.Unlock()
	if err := (&rotator{Store: s, Rotation: rotation, result: &result}).run(ctx); err != nil {
		return result, fmt.Errorf("rotate log: %w", err)
	}
	return result, nil
}

// rotator is one pass of rotation.
type rotator struct {
	*Store
	Rotation

	result *RotationResult
	now    time.Time
}

func (r *rotator) run(ctx context.Context) (err error) {
	live, err := r.reloadSegments(ctx, r.pool)
	if err != nil {
		return err
	}
	if r.now, err = r.databaseTime(ctx); err != nil {
		return err
	}
	used := len(live)
	for i, seg := range live[:len(live)-1] {
		hurry := slots-used < scarceSlots || r.now.Sub(live[i+1].openedAt) >= r.Patience
		freed, err := r.retire(ctx, seg, hurry)
		switch {
		case errors.Is(err, errSegmentBusy):
			continue
		case err != nil:
			return fmt.Errorf("segment %d: %w", seg.no, err)
		}
		if freed {
			used--
			r.result.Freed++
		}
	}
	if used == slots {
		return nil // The current segment goes on until one is free.
	}
	if err := r.open(ctx, live.current()); err != nil && !errors.Is(err, errSegmentBusy) {
		return err
	}
	if r.result.Opened || r.result.Freed > 0 {
		_, err = r.reloadSegments(ctx, r.pool)
	}
	return err
}

// retire gives a segment's slot back if nothing in it is to be kept, or little that may be moved.
func (r *rotator) retire(ctx context.Context, seg segment, hurry bool) (freed bool, err error) {
	if !seg.closed {
		if seg.closed, err = r.close(ctx, seg, hurry); err != nil || !seg.closed {
			return false, err
		}
	}
	kept, err := r.count(ctx, seg, keptSQL)
	if err != nil || kept == nil {
		return false, err
	}
	if !kept.empty() {
		if !hurry || kept.total() > r.Survivors {
			return false, nil
		}
		for _, queue := range kept.queues {
			if err := r.moveAll(ctx, seg, queue, moveKeptSQL); err != nil {
				return false, err
			}
		}
	}
	return r.free(ctx, seg)
}

// close finds out whether every message of a segment is closed, moves what little is not, and notes it.
func (r *rotator) close(ctx context.Context, seg segment, hurry bool) (closed bool, err error) {
	open, err := r.count(ctx, seg, openSQL)
	if err != nil || open == nil {
		return false, err
	}
	if !open.empty() {
		if !hurry || open.total() > r.Survivors {
			return false, nil
		}
		for _, queue := range open.queues {
			if err := r.moveAll(ctx, seg, queue, movePendingSQL); err != nil {
				return false, err
			}
			if err := r.moveAll(ctx, seg, queue, moveLeasedSQL); err != nil {
				return false, err
			}
		}
		delete(r.rotation.next, seg.no)
		if open, err = r.count(ctx, seg, openSQL); err != nil || open == nil || !open.empty() {
			return false, err
		}
	}
	err = r.alone(ctx, seg, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, r.sql(closeSegmentSQL), seg.no)
		return err //nolint:wrapcheck // wrapped by the caller
	})
	return err == nil, err
}

// errSegmentBusy says that nothing was done with a segment: another pass is at work or has freed it, so that its slot
// is another's, or somebody who reads its tables, a backup perhaps, did not let go of them in time. There is another
// pass.
var errSegmentBusy = errors.New("segment is busy")

// alone runs f on a segment in a transaction, with a bound on waits for locks. It returns errSegmentBusy, and nothing
// has been done, if it cannot: what follows in a pass must not take f for done.
func (r *rotator) alone(ctx context.Context, seg segment, f func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		mine, err := r.tryLock(ctx, tx, rotateLock)
		if err != nil {
			return err
		}
		there := false
		if mine {
			err = tx.QueryRow(ctx, r.sql(segmentThereSQL), seg.no).Scan(&there)
		}
		if err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		if !there {
			return errSegmentBusy
		}
		if _, err := tx.Exec(ctx, passSettingsSQL, millisText(countTimeout), millisText(rotateWait)); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		return f(ctx, tx)
	})
	if isLockTimeout(err) {
		return errSegmentBusy
	}
	return err //nolint:wrapcheck // wrapped by the caller
}

// passSettingsSQL gives a transaction time, and lets it read whole tables in the way that is best for that.
//
//nolint:gosec // no credentials
const passSettingsSQL = `
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
    set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true)`

// A pass that is late must not open a segment after another one has.
const openSegmentSQL = `
INSERT INTO {schema}.segment (no, slot, first_id)
SELECT $1 + 1, (SELECT min(s) FROM generate_series(0, $2 - 1) s WHERE s NOT IN (SELECT slot FROM {schema}.segment)),
    nextval('{schema}.message_id_seq')
FROM {schema}.segment current, {schema}.message_id_seq ids
WHERE current.no = $1 AND $1 = (SELECT max(no) FROM {schema}.segment) AND ids.last_value >= current.first_id
    AND (ids.last_value - current.first_id + 1 >= $3 AND (SELECT count(*) FROM {schema}.segment) <= $2 / 2
        OR current.opened_at <= now() - interval '1 millisecond' * greatest($4,
            (SELECT max(succeeded_retention_ms) FROM {schema}.queue) / ($2 - 2)))
    AND EXISTS (SELECT FROM {log})`

// open opens the next segment if it is time. Whatever was added to the current one is committed by then.
func (r *rotator) open(ctx context.Context, current segment) error {
	return r.alone(ctx, current, func(ctx context.Context, tx pgx.Tx) error {
		if err := r.lock(ctx, tx, segmentLock); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, r.slotSQL(openSegmentSQL, current.slot), current.no, slots, r.SegmentIDs,
			millis(r.SegmentAge))
		r.result.Opened = tag.RowsAffected() > 0
		return err //nolint:wrapcheck // wrapped by the caller
	})
}

const (
	segmentThereSQL = `SELECT EXISTS (SELECT FROM {schema}.segment WHERE no = $1)`

	closeSegmentSQL = `UPDATE {schema}.segment SET closed_at = now() WHERE no = $1`

	anythingLeftSQL = `SELECT EXISTS (` + openSQL + `) OR EXISTS (` + keptSQL + `)`

	lockSlotSQL = `LOCK TABLE {log}, {claim}, {closed}, {delta} IN ACCESS EXCLUSIVE MODE`

	// removedSQL takes the succeeded messages of a closed segment out of the counters, and counts them.
	removedSQL = `
WITH gone AS (SELECT queue_id, count(*) AS n FROM {closed} WHERE NOT moved GROUP BY queue_id), counted AS (
    INSERT INTO {schema}.depth_delta SELECT queue_id, 0, 0, -n, 0 FROM gone
)
SELECT coalesce(sum(n), 0)::bigint FROM gone`

	keepDeltasSQL = `
INSERT INTO {schema}.depth_delta
SELECT queue_id, sum(pending), sum(processing), sum(succeeded), sum(dead) FROM {delta} GROUP BY queue_id`

	emptySlotSQL = `TRUNCATE {log}, {claim}, {closed}, {delta}`

	dropSegmentSQL = `DELETE FROM {schema}.segment WHERE no = $1`
)

// free empties the tables of a closed segment and gives the slot back, in one transaction. It looks itself whether
// anything in it is to be kept, whatever a pass believes: what it empties is gone. What takes time is done before the
// tables are locked, since nothing in them changes any more.
func (r *rotator) free(ctx context.Context, seg segment) (freed bool, err error) {
	var removed int64
	err = r.alone(ctx, seg, func(ctx context.Context, tx pgx.Tx) error {
		var left bool
		if err := tx.QueryRow(ctx, r.slotSQL(anythingLeftSQL, seg.slot)).Scan(&left); err != nil || left {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		if err := tx.QueryRow(ctx, r.slotSQL(removedSQL, seg.slot)).Scan(&removed); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		if _, err := tx.Exec(ctx, r.sql(dropSegmentSQL), seg.no); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		for _, statement := range []string{lockSlotSQL, keepDeltasSQL, emptySlotSQL} {
			if _, err := tx.Exec(ctx, r.slotSQL(statement, seg.slot)); err != nil {
				return err //nolint:wrapcheck // wrapped by the caller
			}
		}
		freed = true
		return nil
	})
	if err != nil || !freed {
		return false, err
	}
	delete(r.rotation.next, seg.no)
	r.result.Removed += removed
	return true, nil
}
