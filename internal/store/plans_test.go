package store_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/store"
)

// Pages that a hot statement may touch, whatever the size of the queue. Each touches rows in a handful of indexes; a
// scan of the table below would touch thousands.
const maxPages = 400

// fillSQL makes a queue of 60,000 messages, a third of each pending, dead and succeeded.
const fillSQL = `
INSERT INTO deadletter.message (queue_id, status, payload, headers, max_retries, ready_at, failure_reason,
    failure_category, fingerprint, failed_version, dead_at, succeeded_at, created_at, updated_at)
SELECT q.id, s.status, convert_to(repeat('x', 200), 'UTF8'), '[]', 3, now() - n * interval '1 second',
    'boom', 'UNKNOWN', 'f' || n % 100, 'v1',
    CASE WHEN s.status = 'dead' THEN now() - n * interval '1 second' END,
    CASE WHEN s.status = 'succeeded' THEN now() - n * interval '1 second' END, now(), now()
FROM deadletter.queue q, generate_series(1, 20000) n,
    unnest(ARRAY['pending', 'dead', 'succeeded']) AS s (status)
WHERE q.name = $1`

func TestHotStatementsTouchFewPages(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.mustEnqueue(t, 1)
	d.exec(t, fillSQL, orders)
	if err := d.FoldDepth(t.Context()); err != nil {
		t.Fatalf("fold depth: %v", err)
	}
	d.exec(t, "VACUUM ANALYZE")
	id := scalar[int64](t, t.Context(), d.raw, "SELECT max(id) FROM deadletter.message WHERE status = 'dead'")
	logged := scalar[int64](t, t.Context(), d.raw, "SELECT max(id) FROM deadletter.log_0")
	statements, err := d.HotStatements(t.Context(), orders, id, logged)
	if err != nil {
		t.Fatalf("list statements: %v", err)
	}
	for name, statement := range statements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if pages := d.pages(t, statement); pages > maxPages {
				t.Fatalf("touches %d pages, at most %d are allowed", pages, maxPages)
			}
		})
	}
}

// pages runs a statement under EXPLAIN, rolls it back, and returns how many pages it touched.
func (d database) pages(t *testing.T, statement store.Statement) int {
	t.Helper()
	tx, err := d.raw.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+statement.SQL, statement.Args...)
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	plan, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]byte])
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		} `json:"Plan"`
	}
	if err := json.Unmarshal(plan, &explained); err != nil {
		t.Fatalf("parse plan: %v", err)
	}
	return explained[0].Plan.Hit + explained[0].Plan.Read
}
