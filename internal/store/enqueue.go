package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// An enqueue holds the queue's lock until it is committed. So the ids of a queue become visible in their order, and a
// claim that reads on from the last claimed id leaves none behind. DeleteQueue takes the same lock for its last look;
// after that, these statements, which read the queue's row themselves, find none and insert nothing.
const (
	enqueueLogSQL = `
WITH q AS MATERIALIZED (
    SELECT id, max_retries FROM {schema}.queue WHERE name = $1 AND (owner_name IS NOT NULL OR NOT $5)
        AND (closed_until IS NULL OR closed_until < now())
), place AS MATERIALIZED (
    SELECT max(no) = $6 AS current, clock_timestamp() AS now FROM {schema}.segment
), new AS MATERIALIZED (
    SELECT nextval('{schema}.message_id_seq') AS id, n.*
    FROM place, unnest($2::bytea[], $3::text[], $4::int[]) AS n (payload, headers, max_retries)
    WHERE place.current AND EXISTS (SELECT FROM q)
), logged AS (
    INSERT INTO {log} AS l (queue_id, id, created_at, max_retries, headers, payload)
    SELECT q.id, new.id, place.now, coalesce(nullif(new.max_retries, 0), q.max_retries), new.headers::json, new.payload
    FROM q, place, new
    RETURNING l.id, l.max_retries
), counted AS (
    INSERT INTO {delta} SELECT q.id, (SELECT count(*) FROM new), 0, 0, 0 FROM q WHERE EXISTS (SELECT FROM new)
)
SELECT place.current, place.now, logged.id, logged.max_retries
FROM q CROSS JOIN place LEFT JOIN logged ON true ORDER BY logged.id`

	enqueueLaterSQL = `
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
)

// Enqueue implements Engine. Enqueues to one queue at one time go together, and each is accepted whole or not at all.
func (s *Store) Enqueue(ctx context.Context, queue string, messages []NewMessage) ([]message.Message, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	columns, err := newMessageColumns(messages)
	if err != nil {
		return nil, err
	}
	var stored []message.Message
	if columns.delayed {
		ctx, cancel := s.bound(ctx)
		defer cancel()
		stored, err = s.insertOrCreate(ctx, s.pool, queue, columns, s.insertLater)
	} else {
		stored, err = s.enqueues.Do(ctx, queue, columns)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return stored, nil
}

// enqueueAll puts the messages of several calls into the log.
func (s *Store) enqueueAll(ctx context.Context, queue string, calls []messageColumnsOf) ([][]message.Message, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	all := calls[0]
	for _, call := range calls[1:] {
		all = all.with(call)
	}
	stored, err := s.insertOrCreate(ctx, s.pool, queue, all, s.insertIntoLog)
	if err != nil {
		return nil, err
	}
	answers := make([][]message.Message, len(calls))
	for i, call := range calls {
		answers[i], stored = stored[:len(call.messages):len(call.messages)], stored[len(call.messages):]
	}
	return answers, nil
}

// insertOrCreate inserts, and creates the queue if it is not there.
func (s *Store) insertOrCreate(ctx context.Context, db sender, queue string, columns messageColumnsOf, insert inserter,
) ([]message.Message, error) {
	stored, err := insert(ctx, db, queue, columns, false)
	if err == nil && len(stored) == 0 && !s.denyUndeclared {
		stored, err = insert(ctx, db, queue, columns, true)
	}
	if err == nil && len(stored) == 0 {
		return nil, s.whyRefused(ctx, db, queue)
	}
	return stored, err
}

const queueClosedSQL = `SELECT EXISTS (SELECT FROM {schema}.queue WHERE name = $1 AND closed_until >= now())`

// whyRefused tells a queue that is being deleted from one that nobody declares.
func (s *Store) whyRefused(ctx context.Context, db sender, queue string) error {
	closed, err := one(collect(ctx, db, pgx.RowTo[bool], s.sql(queueClosedSQL), queue))
	switch {
	case err != nil:
		return err
	case closed:
		return ErrClosedQueue
	default:
		return ErrUndeclaredQueue
	}
}

// sender is a pool or a transaction.
type sender interface {
	querier
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// inserter puts messages into a queue. With create it also makes the queue, with the default settings, unless it is
// there: under the queue's lock nobody can delete it before it has its messages.
type inserter func(ctx context.Context, db sender, queue string, c messageColumnsOf, create bool,
) ([]message.Message, error)

// insertLater puts messages that are not ready at once into the table message.
func (s *Store) insertLater(ctx context.Context, db sender, queue string, c messageColumnsOf, create bool,
) ([]message.Message, error) {
	rows, err := insertRows(ctx, s, db, queue, create, messageOf(queue), s.sql(enqueueLaterSQL),
		queue, c.payloads, c.headers, c.retries, c.delays, s.denyUndeclared)
	slices.SortFunc(rows, func(a, b messageRow) int { return cmp.Compare(a.ID, b.ID) })
	return plain(rows), err
}

// insertIntoLog puts messages that are ready at once into the current segment.
func (s *Store) insertIntoLog(ctx context.Context, db sender, queue string, c messageColumnsOf, create bool,
) ([]message.Message, error) {
	live, err := s.liveSegments(ctx, db)
	for {
		if err != nil {
			return nil, err
		}
		seg := live.current()
		rows, err := insertRows(ctx, s, db, queue, create, scanLogged, s.slotSQL(enqueueLogSQL, seg.slot),
			queue, c.payloads, c.headers, c.retries, s.denyUndeclared, seg.no)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return nil, nil // There is no such queue.
		}
		if rows[0].current {
			return c.stored(queue, rows), nil
		}
		if live, err = s.reloadSegments(ctx, db); err != nil {
			return nil, err
		}
	}
}

// enqueueLockSQL takes the locks of an enqueue: the current segment stays the current one, and the queue's ids become
// visible in order.
const enqueueLockSQL = "SELECT pg_advisory_xact_lock_shared($1), pg_advisory_xact_lock($2)"

func (s *Store) enqueueKeys(queue string) []any {
	return []any{advisoryKey(segmentLock, s.schema), advisoryKey(queueLock(queue), s.schema)}
}

// insertRows runs an insert under the locks of the current segment and the queue, in one transaction and round trip.
func insertRows[T any](ctx context.Context, s *Store, db sender, queue string, create bool,
	scan func(pgx.CollectableRow) (T, error), statement string, args ...any,
) (rows []T, err error) {
	batch := &pgx.Batch{}
	batch.Queue(enqueueLockSQL, s.enqueueKeys(queue)...)
	if create {
		settings := append([]any{queue}, settingsArgs(message.DefaultSettings())...)
		batch.Queue(s.sql(createQueueSQL), settings...)
	}
	batch.Queue(statement, args...).Query(func(result pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(result, scan)
		return err //nolint:wrapcheck // wrapped by the caller
	})
	err = db.SendBatch(ctx, batch).Close()
	return rows, err //nolint:wrapcheck // wrapped by the caller
}

// loggedRow is what became of one new message.
type loggedRow struct {
	// current says that the segment is the one to write to; if not, nothing was written.
	current    bool
	now        time.Time
	id         *int64
	maxRetries *int
}

func scanLogged(row pgx.CollectableRow) (l loggedRow, err error) {
	err = row.Scan(&l.current, &l.now, &l.id, &l.maxRetries)
	return l, err //nolint:wrapcheck // wrapped by the operation
}

// messageColumnsOf is new messages turned into one array per column.
type messageColumnsOf struct {
	messages []NewMessage
	payloads [][]byte
	headers  []string
	retries  []int32
	delays   []int64
	delayed  bool
}

func newMessageColumns(messages []NewMessage) (messageColumnsOf, error) {
	c := messageColumnsOf{
		messages: messages, payloads: make([][]byte, len(messages)), headers: make([]string, len(messages)),
		retries: make([]int32, len(messages)), delays: make([]int64, len(messages)),
	}
	for i, m := range messages {
		encoded, err := encodeHeaders(m.Headers)
		if err != nil {
			return c, err
		}
		c.payloads[i], c.headers[i] = m.Payload, encoded
		c.retries[i], c.delays[i] = int32(m.MaxRetries), millis(m.Delay) //nolint:gosec // 0 to 10
		c.delayed = c.delayed || c.delays[i] > 0
		if m.Payload == nil {
			c.payloads[i] = []byte{}
		}
	}
	return c, nil
}

// with are the messages of both.
func (c messageColumnsOf) with(other messageColumnsOf) messageColumnsOf {
	return messageColumnsOf{
		messages: slices.Concat(c.messages, other.messages), payloads: slices.Concat(c.payloads, other.payloads),
		headers: slices.Concat(c.headers, other.headers), retries: slices.Concat(c.retries, other.retries),
	}
}

// weight is how much of a flush the messages take.
func (c messageColumnsOf) weight() int {
	size := 0
	for _, payload := range c.payloads {
		size += len(payload)
	}
	return max(len(c.payloads), size/gatherBytes)
}

// stored are the messages as they are in the log now. Ids were given in order.
func (c messageColumnsOf) stored(queue string, rows []loggedRow) []message.Message {
	stored := make([]message.Message, len(rows))
	for i, row := range rows {
		now := row.now.UTC()
		stored[i] = message.Message{
			ID: *row.id, Queue: queue, Payload: c.payloads[i], PayloadSize: len(c.payloads[i]),
			Headers: c.messages[i].Headers, Status: message.Pending, MaxRetries: *row.maxRetries,
			CreatedAt: now, UpdatedAt: now,
		}
	}
	return stored
}

// queueLock orders what makes messages of a queue visible: enqueues, and the end of the queue.
func queueLock(queue string) string { return "queue:" + queue }

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
