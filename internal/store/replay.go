package store

import (
	"context"
	"fmt"

	"deadletter.dev/deadletter/internal/message"
)

// sourceAPI is the source recorded for a replay of one message.
const sourceAPI = "api"

// letterSQL are the columns of a CTE "letter" of dead messages m, beside what it adds: the queue to go to, the item of
// the run that takes them, and the edited payload.
const letterSQL = `m.id, m.queue_id, m.dead_at, m.failure_category, m.fingerprint, m.replay_count, m.revision_count`

// backToWorkSQL continues a statement that has a CTE "letter" of locked dead messages, of letterSQL, target_id, run_id,
// position and payload, and takes the source as parameter $1 and the kept history as $2 and $3. Every counter and
// deadline that can kill is reset; the history stays. A message comes back behind the others of its group. The payload
// before an edit is kept.
const backToWorkSQL = `
history AS (
    INSERT INTO {schema}.replay (message_id, number, replayed_at, source, died_at, category, fingerprint, moved_from)
    SELECT id, replay_count + 1, now(), $1, dead_at, failure_category, fingerprint,
        CASE WHEN target_id <> queue_id THEN (SELECT name FROM {schema}.queue q WHERE q.id = letter.queue_id) END
    FROM letter
), trimmed AS (
    DELETE FROM {schema}.replay r USING letter
    WHERE r.message_id = letter.id AND r.number > $2 AND r.number <= letter.replay_count + 1 - $3
), revision AS (
    INSERT INTO {schema}.message_revision (message_id, number, edited_at, source, payload)
    SELECT m.id, letter.revision_count + 1, now(), $1, m.payload
    FROM letter JOIN {schema}.message m ON m.id = letter.id WHERE letter.payload IS NOT NULL
), back AS (
    UPDATE {schema}.message m
    SET status = 'pending', retry_count = 0, delivery_count = 0, replay_count = m.replay_count + 1,
        ready_at = now(), delayed = false, blocked = m.group_key IS NOT NULL,
        expires_at = now() + interval '1 millisecond' * coalesce(m.ttl_ms,
            (SELECT nullif(q.message_ttl_ms, 0) FROM {schema}.queue q WHERE q.id = letter.target_id)),
        dead_at = NULL, failure_reason = NULL, failure_category = NULL,
        fingerprint = NULL, error_class = NULL, failed_by = NULL, failed_version = NULL, last_failure_at = NULL,
        queue_id = letter.target_id, run_id = letter.run_id, run_position = letter.position,
        payload = coalesce(letter.payload, m.payload),
        revision_count = m.revision_count + num_nonnulls(letter.payload),
        updated_at = now()
    FROM letter WHERE m.id = letter.id
    RETURNING ` + messageColumns + `
)`

const replayOneSQL = `
WITH letter AS MATERIALIZED (
    SELECT ` + letterSQL + `, m.queue_id AS target_id, NULL::bigint AS run_id, NULL::bigint AS position,
        NULL::bytea AS payload
    FROM {schema}.message m
    WHERE m.queue_id = (SELECT id FROM {schema}.queue WHERE name = $4) AND m.id = $5 AND m.status = 'dead'
    FOR UPDATE
), ` + backToWorkSQL + `
SELECT * FROM back`

// Replay implements Engine.
func (s *Store) Replay(ctx context.Context, queue string, id int64) (message.Message, error) {
	bounded, cancel := s.bound(ctx)
	defer cancel()
	rows, err := collect(bounded, s.pool, messageOf(queue), s.sql(replayOneSQL),
		sourceAPI, keptFirstAttempts, keptLastAttempts, queue, id)
	if err != nil {
		return message.Message{}, fmt.Errorf("replay message: %w", err)
	}
	if len(rows) == 1 {
		return rows[0].Message, nil
	}
	if _, err := s.Get(ctx, queue, id); err != nil {
		return message.Message{}, err
	}
	return message.Message{}, ErrNotDead
}
