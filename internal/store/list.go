package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"deadletter.dev/deadletter/internal/message"
)

var getSQL = `
SELECT ` + messageColumns + ` FROM {schema}.message m
WHERE m.queue_id = ` + queueIDSQL + ` AND m.id = $2`

// getAnywhereSQL looks in the log as well.
var getAnywhereSQL = getSQL + `
UNION ALL
SELECT ` + logColumns + logFromSQL + `
WHERE l.queue_id = ` + queueIDSQL + ` AND l.id = $2 AND x.moved IS NOT TRUE`

// Get implements Engine.
func (s *Store) Get(ctx context.Context, queue string, id int64) (message.Message, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	live, err := s.liveSegments(ctx, s.pool)
	if err != nil {
		return message.Message{}, fmt.Errorf("get message: %w", err)
	}
	m, err := s.getIn(ctx, live, queue, id)
	if !errors.Is(err, ErrNotFound) {
		return m, err
	}
	// It may be in a segment that is newer than what was known of.
	newest := live.current().no
	if live, err = s.reloadSegments(ctx, s.pool); err == nil && live.current().no == newest {
		return message.Message{}, ErrNotFound
	}
	if err != nil {
		return message.Message{}, fmt.Errorf("get message: %w", err)
	}
	return s.getIn(ctx, live, queue, id)
}

func (s *Store) getIn(ctx context.Context, live segments, queue string, id int64) (message.Message, error) {
	statement := s.sql(getSQL)
	if seg, ok := live.of(id); ok {
		statement = s.slotSQL(getAnywhereSQL, seg.slot)
	}
	rows, err := collect(ctx, s.pool, messageOf(queue), statement, queue, id)
	switch {
	case err != nil:
		return message.Message{}, fmt.Errorf("get message: %w", err)
	case len(rows) == 0:
		return message.Message{}, ErrNotFound
	default:
		return rows[0].Message, nil
	}
}

// A page is made of the first messages of each source, so that each walks its own index in id order. A source is the
// table message or a segment of the log, and for each status there is a statement of its own.
const pageSQL = ` ORDER BY id LIMIT $3`

func otherSourceSQL(status message.Status) string {
	where := ""
	if status != "" {
		where = " AND m.status = '" + string(status) + "'"
	}
	return `SELECT ` + previewColumns + ` FROM {schema}.message m
WHERE m.queue_id = ` + queueIDSQL + ` AND m.id > $2` + where + pageSQL
}

// reachedSQL is the cursor of the queue in a segment: later ids are pending.
const reachedSQL = `(SELECT coalesce((
    SELECT last FROM {claim} WHERE queue_id = ` + queueIDSQL + ` ORDER BY first DESC LIMIT 1), 0))`

// leasedLately bounds for how long an expired lease may wait for the sweep and still be listed as being processed.
const leasedLately = "interval '1 minute'"

func logSourceSQL(status message.Status) string {
	where := `WHERE l.queue_id = ` + queueIDSQL + ` AND l.id > $2 AND x.moved IS NOT TRUE`
	switch status {
	case message.Pending:
		where += ` AND l.id > ` + reachedSQL
	case message.Succeeded:
		return `SELECT ` + logPreviewColumns + ` FROM {closed} x
CROSS JOIN ` + logged("x") + ` CROSS JOIN ` + covering("x") + `
WHERE x.queue_id = ` + queueIDSQL + ` AND x.id > $2 AND NOT x.moved ORDER BY x.id LIMIT $3`
	case message.Processing:
		// The few claims that are not over, rather than the many messages that are; and of these claims, those of which
		// not everything is closed yet.
		// OFFSET 0 has them found by their end, not by their queue, of which there may be many.
		return `SELECT ` + logPreviewColumns + ` FROM (
    SELECT * FROM {claim} WHERE expires_at > now() - ` + leasedLately + ` OFFSET 0
) c CROSS JOIN LATERAL (
    SELECT * FROM {log} k WHERE k.queue_id = c.queue_id AND k.id BETWEEN c.first AND c.last OFFSET 0
) l
LEFT JOIN LATERAL (SELECT * FROM {closed} k WHERE k.queue_id = l.queue_id AND k.id = l.id OFFSET 0) x ON true
WHERE c.queue_id = ` + queueIDSQL + ` AND l.id > $2 AND x.id IS NULL
    AND (SELECT count(*) FROM {closed} k WHERE k.queue_id = c.queue_id AND k.id BETWEEN c.first AND c.last) < c.n
ORDER BY l.id LIMIT $3`
	case message.Dead:
		return "" // The log has none.
	}
	return `SELECT ` + logPreviewColumns + logFromSQL + ` ` + where + ` ORDER BY l.id LIMIT $3`
}

// listSQL is the statement that lists messages of a status, or of all, from the table message and some segments.
func listSQL(status message.Status, live segments) string {
	parts := []string{"SELECT * FROM (" + otherSourceSQL(status) + ") m"}
	if status != message.Dead {
		for _, seg := range live {
			parts = append(parts, "SELECT * FROM ("+slotTables(logSourceSQL(status), seg.slot)+") m")
		}
	}
	return strings.Join(parts, " UNION ALL ") + pageSQL + ` OFFSET $4`
}

// List implements Engine. A segment that is opened while the page is read may hold messages that belong on it, so the
// page is read again.
func (s *Store) List(ctx context.Context, queue string, params ListParams) (Page, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	live, err := s.reloadSegments(ctx, s.pool)
	for err == nil {
		var page Page
		if page, err = s.listIn(ctx, live, queue, params); err != nil {
			break
		}
		newest := live.current().no
		if live, err = s.reloadSegments(ctx, s.pool); err == nil && live.current().no == newest {
			return page, nil
		}
	}
	return Page{}, fmt.Errorf("list messages: %w", err)
}

func (s *Store) listIn(ctx context.Context, live segments, queue string, params ListParams) (Page, error) {
	if seg, ok := live.of(params.AfterID); ok {
		live = live.from(seg.no)
	}
	rows, err := collect(ctx, s.pool, messageOf(queue), s.qualify(listSQL(params.Status, live)),
		queue, params.AfterID, params.Limit+params.Offset+1, params.Offset)
	if err != nil {
		return Page{}, err
	}
	page := Page{}
	if len(rows) > params.Limit {
		rows = rows[:params.Limit]
		page.NextAfterID = rows[len(rows)-1].ID
	}
	page.Messages = plain(rows)
	return page, nil
}
