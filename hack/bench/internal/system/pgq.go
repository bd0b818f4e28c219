package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"deadletter.dev/deadletter/hack/bench/internal/load"
)

// PgQ is the queue of Skytools: rotated tables, and batches between two ticks that a consumer finishes as a whole. It
// has no claim of a single message and no lease; a consumer that dies gets its batch again.
var PgQ = Kind{
	Name: "PgQ",
	About: "PgQ 3.5; ticks as soon as there are events, at most every 5 ms; one consumer, which acknowledges a batch " +
		"as a whole",
	Postgres: true,
	Window:   20_000,
	Start:    startPgQ,
}

const (
	pgqQueue    = "bench"
	pgqConsumer = "bench"
	pgqTick     = 5 * time.Millisecond
)

// PgQMissing asks the server whether it has the extension.
func PgQMissing(ctx context.Context, database string) string {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err.Error()
	}
	defer conn.Close(ctx)
	var there bool
	err = conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'pgq'`).Scan(&there)
	switch {
	case err != nil:
		return err.Error()
	case !there:
		return "the server has no PgQ; make bench-deps installs it"
	}
	return ""
}

type pgq struct{ pool *pgxpool.Pool }

func startPgQ(ctx context.Context, setup Setup) (System, error) {
	settings, err := pgxpool.ParseConfig(setup.Database)
	if err != nil {
		return nil, err
	}
	settings.MaxConns = int32(setup.Clients + 2) //nolint:gosec // a few hundred
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"CREATE EXTENSION pgq",
		"SELECT pgq.create_queue('" + pgqQueue + "')",
		"SELECT pgq.register_consumer('" + pgqQueue + "', '" + pgqConsumer + "')",
		"SELECT pgq.set_queue_config('" + pgqQueue + "', 'ticker_max_lag', '1 millisecond')",
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			pool.Close()
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return &pgq{pool: pool}, nil
}

func (q *pgq) Processes() []int { return nil }

func (q *pgq) Close() error {
	q.pool.Close()
	return nil
}

// Work ticks and consumes in turn.
func (q *pgq) Work(ctx context.Context, events load.Events) error {
	conn, err := q.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ticker := time.NewTicker(pgqTick)
	defer ticker.Stop()
	events.Ready()
	for {
		if _, err := conn.Exec(ctx, "SELECT pgq.ticker($1)", pgqQueue); err != nil {
			return err
		}
		worked, err := q.consume(ctx, conn.Conn(), events)
		if err != nil {
			return err
		}
		if worked {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// consume takes one batch to its end; it reports whether there was one with events.
func (q *pgq) consume(ctx context.Context, conn *pgx.Conn, events load.Events) (worked bool, err error) {
	var batch *int64
	err = conn.QueryRow(ctx, "SELECT pgq.next_batch($1, $2)", pgqQueue, pgqConsumer).Scan(&batch)
	if err != nil || batch == nil {
		return false, err
	}
	rows, err := conn.Query(ctx, "SELECT ev_data FROM pgq.get_batch_events($1)", *batch)
	if err != nil {
		return false, err
	}
	payloads, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (payload []byte, err error) {
		err = row.Scan(&payload)
		if err == nil {
			events.Delivered(payload)
		}
		return payload, err
	})
	if err != nil {
		return false, err
	}
	var finished int
	if err := conn.QueryRow(ctx, "SELECT pgq.finish_batch($1)", *batch).Scan(&finished); err != nil {
		return false, err
	}
	if finished != 1 {
		return false, errors.New("the batch was not finished")
	}
	for _, payload := range payloads {
		events.Acked(payload)
	}
	return len(payloads) > 0, nil
}

func (q *pgq) Open(ctx context.Context) (load.Session, error) {
	conn, err := q.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &pgqSession{conn: conn}, nil
}

type pgqSession struct{ conn *pgxpool.Conn }

func (s *pgqSession) Close() error {
	s.conn.Release()
	return nil
}

func (s *pgqSession) Enqueue(ctx context.Context, payloads [][]byte) error {
	texts := make([]string, len(payloads))
	for i, payload := range payloads {
		texts[i] = string(payload)
	}
	_, err := s.conn.Exec(ctx, "SELECT count(pgq.insert_event($1, 'm', data)) FROM unnest($2::text[]) AS data",
		pgqQueue, texts)
	return err
}
