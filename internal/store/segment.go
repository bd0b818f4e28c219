package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// slots is how many sets of tables the segments of the log take turns in. Migration 4 makes them.
const slots = 8

// segment is a stretch of the log: the ids from firstID up to the next segment's, in the tables of a slot.
type segment struct {
	no       int64
	slot     int
	firstID  int64
	openedAt time.Time
	// closed says that every message in it is closed, for good.
	closed bool
}

// segments are the live segments, oldest first. Messages are added to the last one only.
type segments []segment

func (s segments) current() segment { return s[len(s)-1] }

// of returns the segment that an id would be in.
func (s segments) of(id int64) (segment, bool) {
	i, _ := slices.BinarySearchFunc(s, id+1, func(seg segment, id int64) int {
		if seg.firstID < id {
			return -1
		}
		return 1
	})
	if i == 0 {
		return segment{}, false
	}
	return s[i-1], true
}

// from returns the segments from number no on.
func (s segments) from(no int64) segments {
	i := slices.IndexFunc(s, func(seg segment) bool { return seg.no >= no })
	if i < 0 {
		return s[len(s):]
	}
	return s[i:]
}

// segmentCache remembers the live segments. It may be behind: statements that depend on the newest segment say which
// that is, and whoever finds nothing looks again.
type segmentCache struct {
	known atomic.Pointer[segments]
	// cursors remember, by queue id, before which segment nothing is left to claim. It only ever grows.
	cursors sync.Map
}

const segmentsSQL = `SELECT no, slot, first_id, opened_at, closed_at IS NOT NULL FROM {schema}.segment ORDER BY no`

// liveSegments returns the segments as last seen. Within a transaction db is that: a call that holds a connection and
// waits for another could wait for ever, for calls that do the same.
func (s *Store) liveSegments(ctx context.Context, db querier) (segments, error) {
	if known := s.log.known.Load(); known != nil {
		return *known, nil
	}
	return s.reloadSegments(ctx, db)
}

// reloadSegments reads the segments anew.
func (s *Store) reloadSegments(ctx context.Context, db querier) (segments, error) {
	live, err := readSegments(ctx, db, s.sql(segmentsSQL))
	if err != nil {
		return nil, err
	}
	s.log.known.Store(&live)
	return live, nil
}

func readSegments(ctx context.Context, db querier, statement string) (segments, error) {
	rows, err := collect(ctx, db, func(row pgx.CollectableRow) (seg segment, err error) {
		err = row.Scan(&seg.no, &seg.slot, &seg.firstID, &seg.openedAt, &seg.closed)
		return seg, err //nolint:wrapcheck // wrapped below
	}, statement)
	if err != nil {
		return nil, fmt.Errorf("read segments: %w", err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("read segments: %w: there is none", ErrSchema)
	}
	return rows, nil
}

// slotStatement names a statement of one slot.
type slotStatement struct {
	text string
	slot int
}

// slotSQL puts the schema and the tables of a slot into a statement, once per statement and slot.
func (s *Store) slotSQL(statement string, slot int) string {
	key := slotStatement{statement, slot}
	if cached, ok := s.statements.Load(key); ok {
		return cached.(string) //nolint:forcetypeassert // only strings are stored
	}
	qualified := s.sql(slotTables(statement, slot))
	s.statements.Store(key, qualified)
	return qualified
}

func slotTables(statement string, slot int) string {
	n := strconv.Itoa(slot)
	return strings.NewReplacer(
		"{log}", "{schema}.log_"+n, "{claim}", "{schema}.claim_"+n,
		"{closed}", "{schema}.closed_"+n, "{delta}", "{schema}.delta_"+n,
	).Replace(statement)
}

// everySlot repeats a statement for the tables of every slot, joined by UNION ALL.
func everySlot(statement string) string {
	parts := make([]string, slots)
	for slot := range parts {
		parts[slot] = slotTables(statement, slot)
	}
	return strings.Join(parts, " UNION ALL ")
}

// segmentLock is held together by what adds to the current segment, and alone by what opens the next.
const segmentLock = "segment"
