package store_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

// BenchmarkCycle sends, claims and acknowledges messages of 200 bytes, in parallel, through the store and through the
// least that Postgres can do: a plain table with SKIP LOCKED, without retries, leases, history or counters. Compare
// messages/s of one run; between runs they say nothing.
func BenchmarkCycle(b *testing.B) {
	url := pgtest.Database(b)
	if _, err := store.Migrate(b.Context(), store.MigrateOptions{DatabaseURL: url, Schema: schema}); err != nil {
		b.Fatalf("migrate: %v", err)
	}
	opened, err := store.Open(b.Context(), store.Options{DatabaseURL: url, Schema: schema})
	if err != nil {
		b.Fatalf("open store: %v", err)
	}
	b.Cleanup(opened.Close)
	pool, err := pgxpool.New(b.Context(), url)
	if err != nil {
		b.Fatalf("open pool: %v", err)
	}
	b.Cleanup(pool.Close)
	if _, err := pool.Exec(b.Context(), plainTableSQL); err != nil {
		b.Fatalf("create plain table: %v", err)
	}
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("plain/batch=%d", batch), func(b *testing.B) { benchmark(b, batch, plainCycle(pool)) })
		b.Run(fmt.Sprintf("deadletter/batch=%d", batch), func(b *testing.B) {
			benchmark(b, batch, storeCycle(opened, orders, store.NewMessage{}))
		})
	}
	benchmarkWishes(b, opened)
}

// benchmarkWishes shows what each wish beside the order of enqueue costs.
func benchmarkWishes(b *testing.B, s *store.Store) {
	b.Helper()
	mortal, bounded := message.DefaultSettings(), message.DefaultSettings()
	mortal.MessageTTL, bounded.MaxLength = time.Hour, 1_000_000
	for name, wish := range map[string]struct {
		settings message.Settings
		message  store.NewMessage
	}{
		"queue-ttl":  {mortal, store.NewMessage{}},
		"max-length": {bounded, store.NewMessage{}},
		"own-ttl":    {message.DefaultSettings(), store.NewMessage{TTL: time.Hour}},
		"priority":   {message.DefaultSettings(), store.NewMessage{Priority: 1}},
		"group":      {message.DefaultSettings(), store.NewMessage{GroupKey: "one of many"}},
	} {
		if _, err := s.DeclareQueue(b.Context(), name, owner, wish.settings); err != nil {
			b.Fatalf("declare queue: %v", err)
		}
		b.Run("deadletter/"+name+"/batch=100", func(b *testing.B) { benchmark(b, 100, storeCycle(s, name, wish.message)) })
	}
}

// cycle moves a batch of messages through the queue once.
type cycle func(ctx context.Context, batch int) error

func benchmark(b *testing.B, batch int, run cycle) {
	b.Helper()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := run(b.Context(), batch); err != nil {
				b.Errorf("cycle: %v", err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "messages/s")
}

// storeCycle sends messages like a template. A group key is made another one for each message.
func storeCycle(s *store.Store, queue string, like store.NewMessage) cycle {
	var keys atomic.Int64
	return func(ctx context.Context, batch int) error {
		messages := make([]store.NewMessage, batch)
		for i := range messages {
			messages[i] = like
			messages[i].Payload = make([]byte, 200)
			if like.GroupKey != "" {
				messages[i].GroupKey = strconv.FormatInt(keys.Add(1)%1000, 10)
			}
		}
		if _, err := s.Enqueue(ctx, queue, messages); err != nil {
			return err
		}
		held, err := s.Claim(ctx, queue, store.ClaimParams{Max: batch})
		if err != nil {
			return err
		}
		_, err = s.Succeed(ctx, queue, refs(held))
		return err
	}
}

func refs(messages []message.Message) []store.LeaseRef {
	leases := make([]store.LeaseRef, len(messages))
	for i, m := range messages {
		leases[i] = store.LeaseRef{ID: m.ID, Token: m.Lease.Token}
	}
	return leases
}

const plainTableSQL = `
CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, done boolean NOT NULL DEFAULT false,
    taken boolean NOT NULL DEFAULT false, payload bytea NOT NULL);
CREATE INDEX plain_ready ON plain (id) WHERE NOT taken`

func plainCycle(pool *pgxpool.Pool) cycle {
	return func(ctx context.Context, batch int) error {
		payloads := make([][]byte, batch)
		for i := range payloads {
			payloads[i] = make([]byte, 200)
		}
		if _, err := pool.Exec(ctx, `INSERT INTO plain (payload) SELECT unnest($1::bytea[])`, payloads); err != nil {
			return err
		}
		var ids []int64
		err := pool.QueryRow(ctx, `WITH c AS MATERIALIZED (SELECT id FROM plain WHERE NOT taken ORDER BY id LIMIT $1
			FOR UPDATE SKIP LOCKED), u AS (UPDATE plain p SET taken = true FROM c WHERE p.id = c.id RETURNING p.id)
			SELECT coalesce(array_agg(id), '{}') FROM u`, batch).Scan(&ids)
		if err != nil {
			return err
		}
		_, err = pool.Exec(ctx, `DELETE FROM plain WHERE id = ANY ($1)`, ids)
		return err
	}
}
