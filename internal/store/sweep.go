package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sweepOverlap is how far a sweep looks back behind the one before: claims become visible a moment after their clock
	// reading, and every lease is longer than this.
	sweepOverlap = 250 * time.Millisecond
	// sweepClaims is how many claims a pass looks at in one segment, of those that end now, and oldClaims of the others.
	// Claims that end at the very same time are those of one flush, which has fewer.
	sweepClaims = 5000
	oldClaims   = gatherMessages + 200
)

// sweepState remembers how far the claims of each segment have been swept, by the database's clock.
//
// Claims that end are looked at about once, however many there are. Beside that a second sweep goes through all claims
// again and again, a few at a time: it finds what the first has missed, because a claim became visible late, a clock
// was set, or this process was not there.
type sweepState struct {
	mu       sync.Mutex
	segments map[int64]*sweepMarks
}

// sweepMarks are ends of claims: everything up to ended has been looked at as it ended, and up to again since the
// second sweep last began.
type sweepMarks struct{ ended, again time.Time }

// dueClaimsSQL looks at claims that have ended since $1, at most $2, and returns of each the queue's name if it is not
// closed. The queue of a claim may be gone.
const dueClaimsSQL = `
SELECT c.expires_at, q.name IS NOT NULL AND (
    SELECT count(*) FROM {closed} x WHERE x.queue_id = c.queue_id AND x.id BETWEEN c.first AND c.last) < c.n,
    coalesce(q.name, '')
FROM (
    SELECT * FROM {claim} WHERE expires_at > $1 AND expires_at <= now() ORDER BY expires_at LIMIT $2
) c
LEFT JOIN LATERAL (SELECT * FROM {schema}.queue k WHERE k.id = c.queue_id OFFSET 0) q ON true
ORDER BY c.expires_at`

var moveExpiredSQL = `
WITH due AS MATERIALIZED (
    SELECT c.* FROM (
        SELECT * FROM {claim} WHERE expires_at > $2 AND expires_at <= $3 ORDER BY expires_at LIMIT $4
    ) c
    WHERE c.queue_id = ` + queueIDSQL + `
        AND (SELECT count(*) FROM {closed} x WHERE x.queue_id = c.queue_id AND x.id BETWEEN c.first AND c.last) < c.n
), held AS MATERIALIZED (
    SELECT l.queue_id, l.id FROM due c
    CROSS JOIN LATERAL (
        SELECT * FROM {log} k WHERE k.queue_id = c.queue_id AND k.id BETWEEN c.first AND c.last OFFSET 0
    ) l
    WHERE NOT EXISTS (SELECT FROM {closed} x WHERE x.queue_id = l.queue_id AND x.id = l.id OFFSET 0)
    ORDER BY l.id LIMIT $5
), closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at) SELECT queue_id, id, true, now() FROM held
    ON CONFLICT DO NOTHING RETURNING queue_id, id
)` + insertMovedSQL

// expireInLog moves messages of the log whose lease has run out to the table message, up to about limit in a segment.
func (s *Store) expireInLog(ctx context.Context, limit int) error {
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return err
	}
	now, err := s.databaseTime(ctx)
	if err != nil {
		return err
	}
	s.sweep.mu.Lock()
	defer s.sweep.mu.Unlock()
	s.sweep.keep(live)
	var failed error
	for _, seg := range live {
		if seg.closed {
			continue
		}
		// One segment's trouble is not the others'.
		if err := s.sweepSegment(ctx, seg, s.sweep.segments[seg.no], now, limit); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// keep drops what is known of segments that are gone, and begins with those that are new: the first sweep with what
// ends from a while ago on, the second with everything.
func (s *sweepState) keep(live segments) {
	known := s.segments
	s.segments = make(map[int64]*sweepMarks, len(live))
	for _, seg := range live {
		if s.segments[seg.no] = known[seg.no]; s.segments[seg.no] == nil {
			s.segments[seg.no] = &sweepMarks{}
		}
	}
}

// firstSweep is how far back the first sweep of a segment begins.
const firstSweep = time.Minute

func (s *Store) sweepSegment(ctx context.Context, seg segment, marks *sweepMarks, now time.Time, limit int) error {
	if marks.ended.IsZero() {
		marks.ended = now.Add(-firstSweep)
	}
	reached, all, err := s.sweepClaims(ctx, seg, marks.ended, sweepClaims, limit)
	if err != nil {
		return err
	}
	if marks.ended = reached; all {
		marks.ended = now.Add(-sweepOverlap)
	}
	if marks.again, all, err = s.sweepClaims(ctx, seg, marks.again, oldClaims, limit); all {
		marks.again = time.Time{}
	}
	return err
}

// dueClaim is a claim that has ended; queue is set when it is not closed.
type dueClaim struct {
	expires time.Time
	open    bool
	queue   string
}

// sweepClaims looks at claims that have ended since a time and moves what is left of them. It returns the end of the
// last one that it is done with, and whether that was all.
func (s *Store) sweepClaims(ctx context.Context, seg segment, since time.Time, claims, limit int,
) (reached time.Time, all bool, err error) {
	due, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (d dueClaim, err error) {
		err = row.Scan(&d.expires, &d.open, &d.queue)
		return d, err //nolint:wrapcheck // wrapped below
	}, s.slotSQL(dueClaimsSQL, seg.slot), since, claims)
	if err != nil {
		return since, false, fmt.Errorf("look for expired leases: %w", err)
	}
	if len(due) == 0 {
		return since, true, nil
	}
	if reached = due[len(due)-1].expires; len(due) == claims {
		// There may be more that end just then.
		reached = reached.Add(-time.Microsecond)
	}
	var queues []string
	for _, claim := range due {
		if claim.open {
			queues = append(queues, claim.queue)
		}
	}
	slices.Sort(queues)
	for _, queue := range slices.Compact(queues) {
		moved, err := s.moveExpired(ctx, seg, queue, since, reached, claims, limit)
		if err != nil {
			return since, false, err
		}
		if moved == limit {
			return since, false, nil // There may be more.
		}
	}
	return reached, len(due) < claims, nil
}

func (s *Store) moveExpired(ctx context.Context, seg segment, queue string, since, until time.Time, claims, limit int,
) (moved int, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.shareLife(ctx, tx, queue); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, s.slotSQL(moveExpiredSQL, seg.slot), queue, since, until, claims, limit)
		moved = int(tag.RowsAffected())
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return 0, fmt.Errorf("move expired messages: %w", err)
	}
	return moved, nil
}
