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
	// fullSweepEvery is how often a sweep looks at all claims there are, in case a moment was longer than that or a clock
	// was set.
	fullSweepEvery = 30 * time.Second
)

// sweepState remembers up to when the claims of a segment have been swept, by the database's clock.
type sweepState struct {
	mu    sync.Mutex
	swept map[int64]time.Time
	full  time.Time
}

// dueClaimsSQL finds queues with expired claims that are not closed. A claim is looked at about once after its end,
// however many there are.
const dueClaimsSQL = `
SELECT q.name FROM {claim} c JOIN {schema}.queue q ON q.id = c.queue_id
WHERE c.expires_at > $1 AND c.expires_at <= now()
    AND (SELECT count(*) FROM {closed} x WHERE x.queue_id = c.queue_id AND x.id BETWEEN c.first AND c.last) < c.n
ORDER BY c.expires_at LIMIT $2`

var moveExpiredSQL = `
WITH due AS MATERIALIZED (
    SELECT c.* FROM {claim} c
    WHERE c.queue_id = ` + queueIDSQL + ` AND c.expires_at > $2 AND c.expires_at <= now()
        AND (SELECT count(*) FROM {closed} x WHERE x.queue_id = c.queue_id AND x.id BETWEEN c.first AND c.last) < c.n
    ORDER BY c.expires_at LIMIT $3
), held AS MATERIALIZED (
    SELECT l.queue_id, l.id FROM due c
    CROSS JOIN LATERAL (
        SELECT * FROM {log} k WHERE k.queue_id = c.queue_id AND k.id BETWEEN c.first AND c.last OFFSET 0
    ) l
    WHERE NOT EXISTS (SELECT FROM {closed} x WHERE x.queue_id = l.queue_id AND x.id = l.id OFFSET 0)
    ORDER BY l.id LIMIT $3
), closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at) SELECT queue_id, id, true, now() FROM held
    ON CONFLICT DO NOTHING RETURNING queue_id, id
)` + insertMovedSQL

// expireInLog moves messages of the log whose lease has run out to the table message, up to limit and a claim more.
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
	s.sweep.forget(live, now)
	for _, seg := range live {
		found, err := s.sweepSegment(ctx, seg, s.sweep.swept[seg.no], limit)
		if err != nil {
			return err
		}
		if !found {
			s.sweep.swept[seg.no] = now.Add(-sweepOverlap)
		}
	}
	return nil
}

// forget drops what is known of segments that are gone, and now and then everything.
func (s *sweepState) forget(live segments, now time.Time) {
	if s.swept == nil || now.Sub(s.full) >= fullSweepEvery {
		s.swept, s.full = map[int64]time.Time{}, now
	}
	for no := range s.swept {
		if rest := live.from(no); len(rest) == 0 || rest[0].no != no {
			delete(s.swept, no)
		}
	}
}

// sweepSegment moves what has expired since the sweep before, and reports whether it found anything.
func (s *Store) sweepSegment(ctx context.Context, seg segment, since time.Time, limit int) (bool, error) {
	names, err := collect(ctx, s.pool, pgx.RowTo[string], s.slotSQL(dueClaimsSQL, seg.slot), since, limit)
	if err != nil {
		return false, fmt.Errorf("look for expired leases: %w", err)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := s.shareLife(ctx, tx, name); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, s.slotSQL(moveExpiredSQL, seg.slot), name, since, limit)
			return err //nolint:wrapcheck // wrapped below
		})
		if err != nil {
			return false, fmt.Errorf("move expired messages: %w", err)
		}
	}
	return len(names) > 0, nil
}
