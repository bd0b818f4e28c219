package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
	"deadletter.dev/deadletter/internal/store/storetest"
)

const schema = "deadletter"

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEngineConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		t.Helper()
		return newDatabase(t).fixture()
	})
}

// With one connection there is none to spare: a call that holds one and asks for another waits in vain.
func TestEngineConformanceOnOneConnection(t *testing.T) {
	t.Parallel()
	storetest.RunTests(t, func(t *testing.T) storetest.Fixture {
		t.Helper()
		return openDatabase(t, newDatabase(t).url, store.Options{MaxConns: 1, StatementTimeout: 5 * time.Second}).fixture()
	})
}

// database is a migrated database with a store and a raw pool on it.
type database struct {
	*store.Store
	url string
	raw *pgxpool.Pool
}

func newDatabase(t *testing.T) database {
	t.Helper()
	url := pgtest.Database(t)
	if _, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: url, Schema: schema}); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return openDatabase(t, url, store.Options{})
}

func openStore(t *testing.T, url string, options store.Options) *store.Store {
	t.Helper()
	options.DatabaseURL, options.Schema = url, schema
	if options.MaxConns == 0 {
		options.MaxConns = 4
	}
	opened, err := store.Open(t.Context(), options)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(opened.Close)
	return opened
}

func openDatabase(t *testing.T, url string, options store.Options) database {
	t.Helper()
	opened := openStore(t, url, options)
	raw, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(raw.Close)
	return database{Store: opened, url: url, raw: raw}
}

func (d database) fixture() storetest.Fixture {
	return storetest.Fixture{
		Engine: d.Store, Elapse: d.elapse, Declare: d.declare, Reset: d.reset, Maintain: d.maintain,
		Check: d.check,
	}
}

// elapse moves everything that was stored into the past.
func (d database) elapse(t storetest.TB, by time.Duration) {
	t.Helper()
	for _, statement := range storetest.ElapseSQL(schema) {
		d.exec(t, statement, by)
	}
	d.ForgetSweeps()
}

// reset removes everything, and keeps the counters in step.
func (d database) reset(t storetest.TB) {
	t.Helper()
	for _, statement := range storetest.ResetSQL(schema) {
		d.exec(t, statement)
	}
}

// eager rotation opens a segment whenever the last one holds anything, and empties those before at once.
var eager = store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour, Survivors: 1_000_000}

func (d database) maintain(t storetest.TB) {
	t.Helper()
	d.rotate(t, eager)
	if err := d.FoldDepth(t.Context()); err != nil {
		t.Fatalf("fold depth: %v", err)
	}
}

func (d database) rotate(t storetest.TB, rotation store.Rotation) store.RotationResult {
	t.Helper()
	result, err := d.RotateLog(t.Context(), rotation)
	if err != nil {
		t.Fatalf("rotate log: %v", err)
	}
	return result
}

func (d database) declare(t storetest.TB, queue string, settings message.Settings) {
	t.Helper()
	if _, err := d.DeclareQueue(t.Context(), queue, store.Owner{Namespace: "shop", Name: queue}, settings); err != nil {
		t.Fatalf("declare queue: %v", err)
	}
}

// check holds counters against rows, before and after folding.
func (d database) check(t storetest.TB) {
	t.Helper()
	if broken := d.count(t, storetest.BrokenGroupsSQL(schema)); broken != 0 {
		t.Fatalf("in %d groups not exactly one message may be handed out", broken)
	}
	for range 2 {
		depths, err := d.Depths(t.Context())
		if err != nil {
			t.Fatalf("read depths: %v", err)
		}
		for queue, depth := range depths {
			var want store.Depth
			err := d.raw.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE status = 'pending'),
				count(*) FILTER (WHERE status = 'processing'), count(*) FILTER (WHERE status = 'succeeded'),
				count(*) FILTER (WHERE status = 'dead') FROM (`+storetest.MessagesSQL(schema)+`) m
				JOIN deadletter.queue q ON q.id = m.queue_id WHERE q.name = $1`, queue).
				Scan(&want.Pending, &want.Processing, &want.Succeeded, &want.Dead)
			if err != nil {
				t.Fatalf("count: %v", err)
			}
			want.OldestReadyAt, want.OldestDeadAt, want.ObservedAt = depth.OldestReadyAt, depth.OldestDeadAt, depth.ObservedAt
			if depth != want {
				t.Fatalf("queue %s: counters %+v, rows %+v", queue, depth, want)
			}
		}
		if err := d.FoldDepth(t.Context()); err != nil {
			t.Fatalf("fold depth: %v", err)
		}
	}
}

func (d database) exec(t storetest.TB, sql string, args ...any) {
	t.Helper()
	if _, err := d.raw.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (d database) count(t storetest.TB, sql string, args ...any) int {
	t.Helper()
	return scalar[int](t, t.Context(), d.raw, sql, args...)
}

func scalar[T any](t storetest.TB, ctx context.Context, db *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}
