package replay_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

const (
	schema = "deadletter"
	queue  = "orders"
)

// fixture is a migrated database with one queue, and a connection of its own for looking at rows.
type fixture struct {
	url   string
	store *store.Store
	conn  *pgx.Conn
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{url: pgtest.Database(t)}
	if _, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: f.url, Schema: schema}); err != nil {
		t.Fatal(err)
	}
	f.store = open(t, f.url)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	f.conn = conn
	return f
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{DatabaseURL: url, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// bury makes n dead letters of a category and returns their ids.
func (f fixture) bury(t *testing.T, n int, category string) []int64 {
	t.Helper()
	ids := make([]int64, 0, n)
	for batch := range slices.Chunk(make([]store.NewMessage, n), 1000) {
		for i := range batch {
			batch[i] = store.NewMessage{Payload: []byte("{}")}
		}
		enqueued, err := f.store.Enqueue(t.Context(), queue, batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range enqueued {
			ids = append(ids, m.ID)
		}
		f.kill(t, len(enqueued), category)
	}
	return ids
}

// kill claims n messages and fails them for good.
func (f fixture) kill(t *testing.T, n int, category string) {
	t.Helper()
	claimed, err := f.store.Claim(t.Context(), queue, store.ClaimParams{Max: n})
	if err != nil {
		t.Fatal(err)
	}
	if len(claimed) != n {
		t.Fatalf("claimed %d of %d messages", len(claimed), n)
	}
	failures := make([]store.FailedLease, n)
	for i, m := range claimed {
		failures[i] = store.FailedLease{
			LeaseRef: store.LeaseRef{ID: m.ID, Token: m.Lease.Token},
			Report:   message.Report{Reason: "broken", Category: category, Permanent: true},
		}
	}
	settled, err := f.store.Fail(t.Context(), queue, failures)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settled {
		if s.Err != nil {
			t.Fatal(s.Err)
		}
	}
}

func spec(runID string) store.RunSpec {
	return store.RunSpec{
		Key:                  store.RunKey{Queue: queue, Namespace: "shop", Name: "fix", RunID: runID},
		Hash:                 "sha256:0",
		Mode:                 store.RunExecute,
		MaxMessages:          1_000_000,
		MaxReplaysPerMessage: 3,
	}
}

func (f fixture) start(t *testing.T, spec store.RunSpec) store.Run {
	t.Helper()
	run, created, err := f.store.StartRun(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if !created {
		t.Fatalf("run %s was there before", spec.Key)
	}
	return run
}

// books is everything that must agree about a run, read in one snapshot.
type books struct {
	State                                 string
	Matched, Replayed, Skipped, Remaining int64
	// Items of the ledger by state.
	ItemsSelected, ItemsReplayed, ItemsSkipped, ItemsCancelled int64
	// Rows of the queue by status.
	Pending, Dead, Processing int64
	// Once counts messages that were replayed once, Often those that were replayed more than that.
	Once, Often int64
}

const booksSQL = `
SELECT r.state, r.matched, r.replayed, r.skipped, r.remaining,
    (SELECT count(*) FROM deadletter.replay_item i WHERE i.run_id = r.id AND i.state = 'selected'),
    (SELECT count(*) FROM deadletter.replay_item i WHERE i.run_id = r.id AND i.state = 'replayed'),
    (SELECT count(*) FROM deadletter.replay_item i WHERE i.run_id = r.id AND i.state = 'skipped'),
    (SELECT count(*) FROM deadletter.replay_item i WHERE i.run_id = r.id AND i.state = 'cancelled'),
    (SELECT count(*) FROM deadletter.message WHERE status = 'pending'),
    (SELECT count(*) FROM deadletter.message WHERE status = 'dead'),
    (SELECT count(*) FROM deadletter.message WHERE status = 'processing'),
    (SELECT count(*) FROM (SELECT FROM deadletter.replay GROUP BY message_id HAVING count(*) = 1) x),
    (SELECT count(*) FROM (SELECT FROM deadletter.replay GROUP BY message_id HAVING count(*) > 1) x)
FROM deadletter.replay_run r WHERE r.id = $1`

func (f fixture) books(t *testing.T, id int64) books {
	t.Helper()
	rows, err := f.conn.Query(t.Context(), booksSQL, id)
	if err != nil {
		t.Fatal(err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[books])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// check fails unless counters, ledger and rows tell the same story about n letters of which nothing else took any.
func (b books) check(t *testing.T, n int64) {
	t.Helper()
	switch {
	case b.Pending+b.Dead+b.Processing != n:
		t.Fatalf("letters were lost: %+v, want %d in all", b, n)
	case b.Matched != b.Replayed+b.Skipped+b.Remaining:
		t.Fatalf("counters do not add up: %+v", b)
	case b.Replayed != b.ItemsReplayed || b.Remaining != b.ItemsSelected+b.ItemsCancelled:
		t.Fatalf("counters differ from the ledger: %+v", b)
	case b.Once != b.ItemsReplayed || b.Often != 0:
		t.Fatalf("history differs from the ledger: %+v", b)
	}
}
