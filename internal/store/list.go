package store

import (
	"context"
	"fmt"

	"deadletter.dev/deadletter/internal/message"
)

const getSQL = `
SELECT ` + messageColumns + ` FROM {schema}.message m
WHERE m.queue_id = ` + queueIDSQL + ` AND m.id = $2`

// Get implements Engine.
func (s *Store) Get(ctx context.Context, queue string, id int64) (message.Message, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := collect(ctx, s.pool, messageOf(queue), s.sql(getSQL), queue, id)
	switch {
	case err != nil:
		return message.Message{}, fmt.Errorf("get message: %w", err)
	case len(rows) == 0:
		return message.Message{}, ErrNotFound
	default:
		return rows[0].Message, nil
	}
}

// Two statements rather than one with an optional status, so that each walks its own index in id order.
var (
	listSQL = `
SELECT ` + previewColumns + ` FROM {schema}.message m
WHERE m.queue_id = ` + queueIDSQL + ` AND m.id > $2
ORDER BY m.id LIMIT $3 OFFSET $4`
	listByStatusSQL = `
SELECT ` + previewColumns + ` FROM {schema}.message m
WHERE m.queue_id = ` + queueIDSQL + ` AND m.id > $2 AND m.status = $5
ORDER BY m.id LIMIT $3 OFFSET $4`
)

// List implements Engine.
func (s *Store) List(ctx context.Context, queue string, params ListParams) (Page, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	statement, args := listSQL, []any{queue, params.AfterID, params.Limit + 1, params.Offset}
	if params.Status != "" {
		statement, args = listByStatusSQL, append(args, string(params.Status))
	}
	rows, err := collect(ctx, s.pool, messageOf(queue), s.sql(statement), args...)
	if err != nil {
		return Page{}, fmt.Errorf("list messages: %w", err)
	}
	page := Page{}
	if len(rows) > params.Limit {
		rows = rows[:params.Limit]
		page.NextAfterID = rows[len(rows)-1].ID
	}
	page.Messages = plain(rows)
	return page, nil
}
