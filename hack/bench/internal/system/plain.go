package system

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/hack/bench/internal/load"
)

// Plain is the queue table that everyone writes first: an index over what is ready, SKIP LOCKED to claim, DELETE to
// acknowledge. Each client has a connection with prepared statements.
var Plain = Kind{
	Name:     "plain table",
	About:    "one table; UPDATE … SKIP LOCKED claims, DELETE acknowledges; prepared statements, a connection per client",
	Postgres: true,
	Start:    startPlain,
}

const (
	plainSchema = `
CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, claimed_at timestamptz, payload bytea NOT NULL);
CREATE INDEX job_ready ON job (id) WHERE claimed_at IS NULL`
	plainEnqueue = `INSERT INTO job (payload) SELECT unnest($1::bytea[])`
	plainClaim   = `
WITH ready AS MATERIALIZED (
    SELECT id FROM job WHERE claimed_at IS NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE job SET claimed_at = now() FROM ready WHERE job.id = ready.id RETURNING job.id, job.payload`
	plainAck = `DELETE FROM job WHERE id = ANY($1::bigint[])`
)

// plainPoll is how long a worker that found nothing waits before it looks again.
const plainPoll = 5 * time.Millisecond

type plain struct{ database string }

func startPlain(ctx context.Context, setup Setup) (System, error) {
	conn, err := pgx.Connect(ctx, setup.Database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, plainSchema); err != nil {
		return nil, fmt.Errorf("create the table: %w", err)
	}
	return &plain{database: setup.Database}, nil
}

func (p *plain) Processes() []int { return nil }

func (p *plain) Close() error { return nil }

func (p *plain) Open(ctx context.Context) (load.Session, error) {
	conn, err := pgx.Connect(ctx, p.database)
	if err != nil {
		return nil, err
	}
	return &plainSession{conn: conn}, nil
}

type plainSession struct {
	conn     *pgx.Conn
	ids      []int64
	payloads [][]byte
}

func (s *plainSession) Close() error { return s.conn.Close(context.Background()) }

func (s *plainSession) Enqueue(ctx context.Context, payloads [][]byte) error {
	_, err := s.conn.Exec(ctx, plainEnqueue, payloads)
	return err
}

func (s *plainSession) Claim(ctx context.Context, limit int, wait time.Duration) ([][]byte, error) {
	return claimPolling(ctx, wait, plainPoll, func() ([][]byte, error) {
		rows, err := s.conn.Query(ctx, plainClaim, limit)
		if err != nil {
			return nil, err
		}
		s.ids, s.payloads = s.ids[:0], s.payloads[:0]
		var id int64
		var payload []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
			s.ids, s.payloads = append(s.ids, id), append(s.payloads, append([]byte(nil), payload...))
			return nil
		})
		return s.payloads, err
	})
}

func (s *plainSession) Ack(ctx context.Context) error {
	done, err := s.conn.Exec(ctx, plainAck, s.ids)
	if err == nil && done.RowsAffected() != int64(len(s.ids)) {
		return fmt.Errorf("%d rows of %d were deleted", done.RowsAffected(), len(s.ids))
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
