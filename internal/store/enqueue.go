package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// An enqueue holds the queue's lock until it is committed. So the ids of a queue become visible in their order, and a
// claim that reads on from the last claimed id leaves none behind. DeleteQueue takes the same lock for its last look;
// after that, these statements, which read the queue's row themselves, find none and insert nothing.
var (
	enqueueLogSQL = `
WITH q AS MATERIALIZED (
    SELECT id, max_retries, message_ttl_ms, overflow, ` + roomSQL + ` AS room
    FROM {schema}.queue q WHERE name = $1 AND (owner_name IS NOT NULL OR NOT $5)
        AND (closed_until IS NULL OR closed_until < now())
), place AS MATERIALIZED (
    SELECT max(no) = $6 AS current, clock_timestamp() AS now FROM {schema}.segment
), new AS MATERIALIZED (
    SELECT nextval('{schema}.message_id_seq') AS id, n.*
    FROM q, place, unnest($2::bytea[], $3::text[], $4::int[]) AS n (payload, headers, max_retries)
    WHERE place.current AND (q.room IS NULL OR q.room >= cardinality($4))
), logged AS (
    INSERT INTO {log} AS l (queue_id, id, created_at, max_retries, headers, payload, expires_at)
    SELECT q.id, new.id, place.now, coalesce(nullif(new.max_retries, 0), q.max_retries), new.headers::json, new.payload,
        CASE WHEN q.message_ttl_ms > 0 THEN place.now + q.message_ttl_ms * interval '1 millisecond' END
    FROM q, place, new
    RETURNING l.id, l.max_retries, l.expires_at
), counted AS (
    INSERT INTO {delta} SELECT q.id, (SELECT count(*) FROM new), 0, 0, 0 FROM q WHERE EXISTS (SELECT FROM new)
)
SELECT place.current, place.now, logged.id, logged.max_retries, logged.expires_at
FROM q CROSS JOIN place LEFT JOIN logged ON true ORDER BY logged.id`

	// enqueueOtherSQL puts messages into the table message; with $10, as dead letters, of the failure $11 to $14. It puts
	// none there if the queue has no room for them.
	enqueueOtherSQL = `
WITH q AS MATERIALIZED (
    SELECT id, max_retries, message_ttl_ms, ` + roomSQL + ` AS room, clock_timestamp() AS now
    FROM {schema}.queue q WHERE name = $1 AND (owner_name IS NOT NULL OR NOT $5)
        AND (closed_until IS NULL OR closed_until < now())
), new AS (
    SELECT n.*, q.now + n.delay_ms * interval '1 millisecond' AS ready_at
    FROM q, unnest($2::bytea[], $3::text[], $4::int[], $6::bigint[], $7::smallint[], $8::text[], $9::bigint[])
        WITH ORDINALITY AS n (payload, headers, max_retries, delay_ms, priority, group_key, ttl_ms, position)
)
INSERT INTO {schema}.message AS m
    (queue_id, status, payload, headers, max_retries, created_at, ready_at, delayed, updated_at,
    priority, group_key, blocked, ttl_ms, expires_at,
    first_failure_at, failure_reason, last_failure_at, failure_category, dead_at, fingerprint, error_class)
SELECT q.id, CASE WHEN $10 THEN 'dead' ELSE 'pending' END, new.payload, new.headers::json,
    coalesce(nullif(new.max_retries, 0), q.max_retries), q.now, new.ready_at, new.delay_ms > 0 AND NOT $10, q.now,
    new.priority, nullif(new.group_key, ''), new.group_key <> '' AND NOT $10, nullif(new.ttl_ms, 0),
    CASE WHEN NOT $10
        THEN new.ready_at + coalesce(nullif(new.ttl_ms, 0), nullif(q.message_ttl_ms, 0)) * interval '1 millisecond' END,
    f.at, $11::text, f.at, $12::text, f.at, $13::text, $14::text
FROM q, new, LATERAL (SELECT CASE WHEN $10::boolean THEN q.now END AS at) f
WHERE $10 OR q.room IS NULL OR q.room >= cardinality($4)
ORDER BY new.position
RETURNING ` + messageColumns
)

// roomSQL is how many messages a queue q has room for, or null for any number. What is enqueued meanwhile waits for the
// queue's lock, and everything else makes room, so that the maximum is never exceeded by an enqueue.
var roomSQL = `CASE WHEN q.max_length > 0 THEN q.max_length - (
        SELECT coalesce(sum(pending + processing), 0) FROM (
            SELECT pending, processing FROM {schema}.depth WHERE queue_id = q.id
            UNION ALL SELECT pending, processing FROM {schema}.depth_delta WHERE queue_id = q.id
            UNION ALL ` + everySlot(`SELECT pending, processing FROM {delta} WHERE queue_id = q.id`) + `
        ) counted) END`

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
	if columns.other {
		ctx, cancel := s.bound(ctx)
		defer cancel()
		stored, err = s.insertOrBury(ctx, s.pool, queue, columns)
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
	insert := s.insertOrCreate
	if len(calls) == 1 {
		insert = s.insertOrBury // Several that do not fit together may fit alone, and are tried so.
	}
	stored, err := insert(ctx, s.pool, queue, all)
	if err != nil {
		return nil, err
	}
	answers := make([][]message.Message, len(calls))
	for i, call := range calls {
		answers[i], stored = stored[:len(call.messages):len(call.messages)], stored[len(call.messages):]
	}
	return answers, nil
}

// insertOrBury inserts, and makes dead letters of what a full queue has no room for, if that is its way.
func (s *Store) insertOrBury(ctx context.Context, db sender, queue string, columns messageColumnsOf,
) ([]message.Message, error) {
	stored, err := s.insertOrCreate(ctx, db, queue, columns)
	if full, ok := errors.AsType[*queueFullError](err); ok && full.overflow == message.OverflowDeadLetter {
		columns.dead = true
		return s.insertOrCreate(ctx, db, queue, columns)
	}
	return stored, err
}

// insertOrCreate inserts, and creates the queue if it is not there.
func (s *Store) insertOrCreate(ctx context.Context, db sender, queue string, columns messageColumnsOf,
) ([]message.Message, error) {
	insert := s.insertIntoLog
	if columns.other || columns.dead {
		insert = s.insertElsewhere
	}
	// With create it also makes the queue, with the default settings, unless it is there: under the queue's lock nobody
	// can delete it before it has its messages.
	for create := false; ; {
		stored, err := insert(ctx, db, queue, columns, create)
		if err != nil || len(stored) > 0 {
			return stored, err
		}
		why := s.whyRefused(ctx, db, queue)
		switch {
		case errors.Is(why, ErrUndeclaredQueue) && !s.denyUndeclared:
			create = true
		case why != nil:
			return nil, why
		}
	}
}

// queueFullError says that a queue has no room. It matches ErrQueueFull.
type queueFullError struct{ overflow message.Overflow }

func (e *queueFullError) Error() string { return ErrQueueFull.Error() }

// Is matches ErrQueueFull.
func (e *queueFullError) Is(target error) bool { return target == ErrQueueFull }

const refusalOfQueueSQL = `
SELECT coalesce(closed_until >= now(), false), owner_name IS NOT NULL, max_length > 0, overflow
FROM {schema}.queue WHERE name = $1`

// whyRefused says why a queue took nothing: it is being deleted, nobody declares it, or it is full. It returns nil when
// nothing of that is so any more.
func (s *Store) whyRefused(ctx context.Context, db sender, queue string) error {
	reasons, err := collect(ctx, db, func(row pgx.CollectableRow) (why, err error) {
		var (
			closed, declared, limited bool
			overflow                  message.Overflow
		)
		err = row.Scan(&closed, &declared, &limited, &overflow)
		switch {
		case closed:
			why = ErrClosedQueue
		case !declared && s.denyUndeclared:
			why = ErrUndeclaredQueue
		case limited:
			why = &queueFullError{overflow}
		}
		return why, err
	}, s.sql(refusalOfQueueSQL), queue)
	switch {
	case err != nil:
		return err
	case len(reasons) == 0:
		return ErrUndeclaredQueue
	default:
		return reasons[0]
	}
}

// sender is a pool or a transaction.
type sender interface {
	querier
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// insertElsewhere puts messages that the log does not take into the table message.
func (s *Store) insertElsewhere(ctx context.Context, db sender, queue string, c messageColumnsOf, create bool,
) ([]message.Message, error) {
	args := []any{
		queue, c.payloads, c.headers, c.retries, s.denyUndeclared, c.delays, c.priorities, c.groups, c.ttls, c.dead,
	}
	if c.dead {
		args = append(args, failureArgs(message.NewFailure(message.OverflowReport(), message.Consumer{}, time.Time{}))...)
	} else {
		args = append(args, nil, nil, nil, nil)
	}
	rows, err := insertRows(ctx, s, db, queue, create, messageOf(queue), s.sql(enqueueOtherSQL), args...)
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
		if len(rows) == 0 || (rows[0].current && rows[0].id == nil) {
			return nil, nil // There is no such queue, or no room in it.
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
	expiresAt  *time.Time
}

func scanLogged(row pgx.CollectableRow) (l loggedRow, err error) {
	err = row.Scan(&l.current, &l.now, &l.id, &l.maxRetries, &l.expiresAt)
	return l, err //nolint:wrapcheck // wrapped by the operation
}

// messageColumnsOf is new messages turned into one array per column.
type messageColumnsOf struct {
	messages     []NewMessage
	payloads     [][]byte
	headers      []string
	retries      []int32
	delays, ttls []int64
	priorities   []int16
	groups       []string
	// other says that one of the messages asks for what the log does not know.
	other bool
	// dead says that they are to be stored as dead letters.
	dead bool
}

func newMessageColumns(messages []NewMessage) (messageColumnsOf, error) {
	n := len(messages)
	c := messageColumnsOf{
		messages: messages, payloads: make([][]byte, n), headers: make([]string, n), retries: make([]int32, n),
		delays: make([]int64, n), ttls: make([]int64, n), priorities: make([]int16, n), groups: make([]string, n),
	}
	for i, m := range messages {
		encoded, err := encodeHeaders(m.Headers)
		if err != nil {
			return c, err
		}
		c.payloads[i], c.headers[i] = m.Payload, encoded
		c.retries[i] = int32(m.MaxRetries) //nolint:gosec // 0 to 10
		c.delays[i], c.ttls[i] = millis(m.Delay), millis(m.TTL)
		c.priorities[i], c.groups[i] = int16(m.Priority), m.GroupKey //nolint:gosec // 0 to 3
		c.other = c.other || c.delays[i] > 0 || c.ttls[i] > 0 || m.Priority > 0 || m.GroupKey != ""
		if m.Payload == nil {
			c.payloads[i] = []byte{}
		}
	}
	return c, nil
}

// with are the messages of both, neither of which asks for what the log does not know.
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
			CreatedAt: now, UpdatedAt: now, ExpiresAt: utc(row.expiresAt),
		}
	}
	return stored
}

// queueLock orders what makes messages of a queue visible: enqueues, and the end of the queue.
func queueLock(queue string) string { return "queue:" + queue }
