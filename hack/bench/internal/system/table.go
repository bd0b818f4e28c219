package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/hack/bench/internal/load"
)

// tableSQL is a queue that consists of SQL and nothing else: a connection with prepared statements per client.
type tableSQL struct {
	schema string
	// enqueue takes a bytea[]; claim takes a limit and returns ids and payloads; ack takes a bigint[].
	enqueue, claim, ack string
	// ordered makes positions visible in the order they were given, and claims one at a time.
	ordered bool
	// lazy leaves the flush of claims and acknowledgements to the next enqueue: losing one costs a redelivery.
	lazy bool
}

// Plain is the queue table that everyone writes first.
var Plain = tableKind("plain table", "one table; UPDATE … SKIP LOCKED claims, DELETE acknowledges; both "+
	"commit lazily", tableSQL{
	schema: `
CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, claimed_at timestamptz, payload bytea NOT NULL);
CREATE INDEX job_ready ON job (id) WHERE claimed_at IS NULL`,
	enqueue: `INSERT INTO job (payload) SELECT unnest($1::bytea[])`,
	claim: `
WITH ready AS MATERIALIZED (
    SELECT id FROM job WHERE claimed_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE job SET claimed_at = now() FROM ready WHERE job.id = ready.id RETURNING job.id, job.payload`,
	ack:  `DELETE FROM job WHERE id = ANY($1::bigint[])`,
	lazy: true,
})

// The ceilings are what Postgres does with the bare statements of a design of queue, in a loop without HTTP, retries or
// checks: no engine of that design can be faster on the machine.
var (
	// CeilingAppend only inserts.
	CeilingAppend = tableKind("raw append only", "rows of a log, a row per claim, a row per "+
		"acknowledgement; claims and acknowledgements commit lazily", tableSQL{
		schema: `
CREATE TABLE log (pos bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),
    payload bytea NOT NULL);
CREATE TABLE claim (batch bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, first bigint NOT NULL, last bigint NOT NULL,
    token uuid NOT NULL, until timestamptz NOT NULL);
CREATE TABLE closed (pos bigint PRIMARY KEY)`,
		enqueue: `INSERT INTO log (payload) SELECT unnest($1::bytea[])`,
		claim: `
WITH m AS MATERIALIZED (
    SELECT pos, payload FROM log WHERE pos > coalesce((SELECT last FROM claim ORDER BY batch DESC LIMIT 1), 0)
    ORDER BY pos LIMIT $1
), c AS (
    INSERT INTO claim (first, last, token, until)
    SELECT min(pos), max(pos), gen_random_uuid(), now() + interval '30 seconds' FROM m HAVING count(*) > 0
)
SELECT pos, payload FROM m`,
		ack:     `INSERT INTO closed SELECT unnest($1::bigint[])`,
		ordered: true, lazy: true,
	})
	// CeilingUpdate changes rows in place.
	CeilingUpdate = tableKind("raw two updates", "one table with status, lease and two partial indexes; claims and "+
		"acknowledgements are updates and commit lazily", tableSQL{
		schema: `
CREATE TABLE message (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status smallint NOT NULL DEFAULT 0,
    ready_at timestamptz NOT NULL DEFAULT now(), token uuid, until timestamptz, payload bytea NOT NULL);
CREATE INDEX message_ready ON message (ready_at, id) WHERE status = 0;
CREATE INDEX message_lease ON message (until) WHERE status = 1`,
		enqueue: `INSERT INTO message (payload) SELECT unnest($1::bytea[])`,
		claim: `
WITH ready AS MATERIALIZED (
    SELECT id FROM message WHERE status = 0 AND ready_at <= now() ORDER BY ready_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE message m SET status = 1, token = gen_random_uuid(), until = now() + interval '30 seconds'
FROM ready WHERE m.id = ready.id RETURNING m.id, m.payload`,
		ack: `
UPDATE message SET status = 2, token = NULL, until = NULL WHERE id = ANY($1::bigint[]) AND status = 1`,
		lazy: true,
	})
)

// tablePoll is how long a worker that found nothing waits before it looks again.
const tablePoll = 5 * time.Millisecond

// What the locks of an ordered table are taken on.
const (
	appendLock = 1
	claimLock  = 2
)

func tableKind(name, about string, sql tableSQL) Kind {
	return Kind{
		Name: name, About: about, Postgres: true,
		Start: func(ctx context.Context, setup Setup) (System, error) {
			conn, err := pgx.Connect(ctx, setup.Database)
			if err != nil {
				return nil, err
			}
			defer conn.Close(ctx)
			if _, err := conn.Exec(ctx, sql.schema); err != nil {
				return nil, fmt.Errorf("create the tables: %w", err)
			}
			return &table{sql: sql, database: setup.Database}, nil
		},
	}
}

type table struct {
	sql      tableSQL
	database string
}

func (t *table) Processes() []int { return nil }

func (t *table) Close() error { return nil }

func (t *table) Open(ctx context.Context) (load.Session, error) {
	durable, err := pgx.Connect(ctx, t.database)
	if err != nil {
		return nil, err
	}
	session := &tableSession{sql: t.sql, durable: durable, lazy: durable}
	if t.sql.lazy {
		session.lazy, err = pgx.Connect(ctx, t.database+"&synchronous_commit=off")
	}
	if err != nil {
		return nil, errors.Join(err, durable.Close(ctx))
	}
	return session, nil
}

type tableSession struct {
	sql           tableSQL
	durable, lazy *pgx.Conn
	ids           []int64
	payloads      [][]byte
}

func (s *tableSession) Close() error {
	err := s.durable.Close(context.Background())
	if s.lazy != s.durable {
		err = errors.Join(err, s.lazy.Close(context.Background()))
	}
	return err
}

// batch starts one round trip, and one transaction if the lock makes it two statements.
func (s *tableSession) batch(lock int) *pgx.Batch {
	batch := &pgx.Batch{}
	if s.sql.ordered {
		batch.Queue("SELECT pg_advisory_xact_lock($1)", lock)
	}
	return batch
}

func (s *tableSession) Enqueue(ctx context.Context, payloads [][]byte) error {
	batch := s.batch(appendLock)
	batch.Queue(s.sql.enqueue, payloads)
	return s.durable.SendBatch(ctx, batch).Close()
}

func (s *tableSession) Claim(ctx context.Context, limit int, wait time.Duration) ([][]byte, error) {
	return claimPolling(ctx, wait, tablePoll, func() ([][]byte, error) {
		batch := s.batch(claimLock)
		batch.Queue(s.sql.claim, limit).Query(s.read)
		err := s.lazy.SendBatch(ctx, batch).Close()
		return s.payloads, err
	})
}

func (s *tableSession) read(rows pgx.Rows) error {
	s.ids, s.payloads = s.ids[:0], s.payloads[:0]
	var id int64
	var payload []byte
	_, err := pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
		s.ids, s.payloads = append(s.ids, id), append(s.payloads, append([]byte(nil), payload...))
		return nil
	})
	return err
}

func (s *tableSession) Ack(ctx context.Context) error {
	done, err := s.lazy.Exec(ctx, s.sql.ack, s.ids)
	if err == nil && done.RowsAffected() != int64(len(s.ids)) {
		return fmt.Errorf("%d rows of %d were acknowledged", done.RowsAffected(), len(s.ids))
	}
	return err
}

// claimPolling asks again and again until there is something or the wait is over.
func claimPolling(
	ctx context.Context, wait, interval time.Duration, claim func() ([][]byte, error),
) ([][]byte, error) {
	end := time.Now().Add(wait)
	for {
		payloads, err := claim()
		if err != nil || len(payloads) > 0 || !time.Now().Add(interval).Before(end) {
			return payloads, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(interval):
		}
	}
}
