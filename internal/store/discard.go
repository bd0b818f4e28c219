package store

import (
	"context"
	"errors"
	"fmt"

	"deadletter.dev/deadletter/internal/message"
)

// ErrInReplay is returned when a dead letter is selected by a running replay and so may not be removed.
var ErrInReplay = errors.New("message is selected by a running replay")

// The selection lock comes first, as a statement of its own: a letter is either selected before this statement's
// snapshot, and kept, or removed before the selection's.
const discardSQL = `
DELETE FROM {schema}.message m
WHERE m.queue_id = ` + queueIDSQL + ` AND m.id = $2 AND m.status = 'dead'
    AND NOT EXISTS (SELECT FROM {schema}.replay_item i WHERE i.message_id = m.id AND i.state = 'selected')
RETURNING ` + messageColumns

// Discard removes one dead letter for good, and returns it as it was. It returns ErrNotFound, ErrNotDead, or
// ErrInReplay while a replay is about to put it back to work.
func (s *Store) Discard(ctx context.Context, queue string, id int64) (message.Message, error) {
	rows, err := locked(ctx, s, selectionLock, messageOf(queue), s.sql(discardSQL), queue, id)
	if err != nil {
		return message.Message{}, fmt.Errorf("discard message: %w", err)
	}
	if len(rows) == 1 {
		return rows[0].Message, nil
	}
	m, err := s.Get(ctx, queue, id)
	switch {
	case err != nil:
		return message.Message{}, err
	case m.Status != message.Dead:
		return message.Message{}, ErrNotDead
	default:
		return message.Message{}, ErrInReplay
	}
}
