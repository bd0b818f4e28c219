package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// An accepted message must be in a queue that exists. An enqueue shares the queue's lock, which DeleteQueue takes alone
// for its last look; after that, this statement, which reads the queue's row itself, finds none and inserts nothing.
const enqueueSQL = `
WITH q AS (
    SELECT id, max_retries FROM {schema}.queue WHERE name = $1 AND (owner_name IS NOT NULL OR NOT $6)
        AND (closed_until IS NULL OR closed_until < now())
), new AS (
    SELECT * FROM unnest($2::bytea[], $3::text[], $4::int[], $5::bigint[])
        WITH ORDINALITY AS n (payload, headers, max_retries, delay_ms, position)
)
INSERT INTO {schema}.message AS m
    (queue_id, status, payload, headers, max_retries, ready_at, delayed, created_at, updated_at)
SELECT q.id, 'pending', new.payload, new.headers::json, coalesce(nullif(new.max_retries, 0), q.max_retries),
    now() + new.delay_ms * interval '1 millisecond', new.delay_ms > 0, now(), now()
FROM q, new ORDER BY new.position
RETURNING ` + messageColumns

// Enqueue implements Engine.
func (s *Store) Enqueue(ctx context.Context, queue string, messages []NewMessage) ([]message.Message, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	args, err := s.enqueueArgs(queue, messages)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.insert(ctx, queue, args, false)
	if err == nil && len(rows) == 0 && !s.denyUndeclared {
		rows, err = s.insert(ctx, queue, args, true)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("enqueue: %w", err)
	case len(rows) == 0:
		return nil, ErrUndeclaredQueue
	}
	slices.SortFunc(rows, func(a, b messageRow) int { return cmp.Compare(a.ID, b.ID) })
	return plain(rows), nil
}

// insert runs the lock and the insert in one transaction and one round trip. With create it also makes the queue, with
// the default settings, unless it is there: under the lock nobody can delete it before it has its messages.
func (s *Store) insert(ctx context.Context, queue string, args []any, create bool) (rows []messageRow, err error) {
	batch := &pgx.Batch{}
	batch.Queue("SELECT pg_advisory_xact_lock_shared($1)", advisoryKey(queueLock(queue), s.schema))
	if create {
		settings := append([]any{queue}, settingsArgs(message.DefaultSettings())...)
		batch.Queue(s.sql(createQueueSQL), settings...)
	}
	batch.Queue(s.sql(enqueueSQL), args...).Query(func(result pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(result, messageOf(queue))
		return err //nolint:wrapcheck // wrapped by the caller
	})
	err = s.pool.SendBatch(ctx, batch).Close()
	return rows, err //nolint:wrapcheck // wrapped by the caller
}

// queueLock is held by enqueues together, and by the end of the queue alone.
func queueLock(queue string) string { return "queue:" + queue }

func (s *Store) enqueueArgs(queue string, messages []NewMessage) ([]any, error) {
	payloads := make([][]byte, len(messages))
	headers := make([]string, len(messages))
	retries := make([]int32, len(messages))
	delays := make([]int64, len(messages))
	for i, m := range messages {
		encoded, err := encodeHeaders(m.Headers)
		if err != nil {
			return nil, err
		}
		payloads[i], headers[i] = m.Payload, encoded
		retries[i], delays[i] = int32(m.MaxRetries), millis(m.Delay) //nolint:gosec // 0 to 10
		if m.Payload == nil {
			payloads[i] = []byte{}
		}
	}
	return []any{queue, payloads, headers, retries, delays, s.denyUndeclared}, nil
}

const createQueueSQL = `
INSERT INTO {schema}.queue (name, max_retries, backoff_initial_ms, backoff_factor_percent, backoff_max_ms,
    backoff_jitter_percent, visibility_timeout_ms, max_deliveries, state, succeeded_retention_ms, dead_retention_ms,
    on_dead_expiry)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (name) DO NOTHING`

// settingsArgs are the parameters from max_retries to on_dead_expiry.
func settingsArgs(settings message.Settings) []any {
	return []any{
		settings.MaxRetries, millis(settings.Backoff.Initial), settings.Backoff.FactorPercent,
		millis(settings.Backoff.Max), settings.Backoff.JitterPercent, millis(settings.VisibilityTimeout),
		settings.MaxDeliveries, string(settings.State), millis(settings.Retention.Succeeded),
		millis(settings.Retention.Dead), string(settings.Retention.OnDeadExpiry),
	}
}
