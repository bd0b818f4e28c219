package store_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/store"
)

// Pages that a hot statement may touch, whatever the size of the queue. Each touches rows in a handful of indexes; a
// scan of the tables below would touch thousands.
const maxPages = 400

// planScaleVariable is how many messages are pending in the queue that plans are tested on. A tenth as many are dead,
// and as many have succeeded.
const (
	planScaleVariable = "DEADLETTER_PLAN_SCALE"
	planScale         = 50_000
)

// fillOtherSQL fills the table message of queue $1 with $2 pending, dead and succeeded messages each, fillLogSQL the
// log with $2 messages that have succeeded, in claims of 100, the last thousand just now, and ten times as many that
// are pending.
const (
	fillOtherSQL = `
INSERT INTO deadletter.message (queue_id, status, payload, headers, max_retries, ready_at, failure_reason,
    failure_category, fingerprint, failed_version, dead_at, succeeded_at, created_at, updated_at)
SELECT q.id, s.status, convert_to(repeat('x', 200), 'UTF8'), '[]', 3, now() - n * interval '1 second',
    'boom', 'UNKNOWN', 'f' || n % 100, 'v1',
    CASE WHEN s.status = 'dead' THEN now() - n * interval '1 second' END,
    CASE WHEN s.status = 'succeeded' THEN now() - n * interval '1 second' END, now(), now()
FROM deadletter.queue q, generate_series(1, $2::bigint) n,
    unnest(ARRAY['pending', 'dead', 'succeeded']) AS s (status)
WHERE q.name = $1`

	fillLogSQL = `
WITH log AS (
    INSERT INTO deadletter.log_0 (queue_id, id, created_at, max_retries, headers, payload)
    SELECT q.id, nextval('deadletter.message_id_seq'), now(), 3, '[]', convert_to(repeat('x', 200), 'UTF8')
    FROM deadletter.queue q, generate_series(1, $2::bigint * 11) n WHERE q.name = $1
    RETURNING queue_id, id
), closed AS (
    INSERT INTO deadletter.closed_0 (queue_id, id, moved, closed_at)
    SELECT queue_id, id, false, now() FROM log ORDER BY id LIMIT $2
    RETURNING queue_id, id
), claim AS (
    INSERT INTO deadletter.claim_0 (queue_id, first, last, n, nonce, claimed_at, expires_at, instance, version)
    SELECT queue_id, min(id), max(id), count(*), 1, now(),
        now() + CASE WHEN min(id) > (SELECT max(id) - 1000 FROM closed) THEN 1 ELSE -1 END * interval '1 hour', '', ''
    FROM closed GROUP BY queue_id, id / 100
)
INSERT INTO deadletter.delta_0 SELECT id, 10 * $2, 0, $2, 0 FROM deadletter.queue WHERE name = $1`
)

// The tables of the log are not analysed: in service they fill under plans that know nothing of them.
func TestHotStatementsTouchFewPages(t *testing.T) {
	t.Parallel()
	tenth := planned(t) / 10
	for name, fill := range map[string]func(database){
		"empty": func(database) {},
		"full": func(d database) {
			d.exec(t, fillOtherSQL, orders, tenth)
			d.exec(t, "VACUUM ANALYZE deadletter.message")
			d.exec(t, fillLogSQL, orders, tenth)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.mustEnqueue(t, 1)
			dead := d.bury(t, reasons("EXTERNAL: a")...)[0]
			d.mustEnqueue(t, 1)
			fill(d)
			if err := d.FoldDepth(t.Context()); err != nil {
				t.Fatalf("fold depth: %v", err)
			}
			logged := scalar[int64](t, t.Context(), d.raw, "SELECT max(id) FROM deadletter.log_0")
			statements, err := d.HotStatements(t.Context(), orders, dead, logged)
			if err != nil {
				t.Fatalf("list statements: %v", err)
			}
			for name, statement := range statements {
				if pages := d.pages(t, statement); pages > maxPages {
					t.Errorf("%s touches %d pages, at most %d are allowed", name, pages, maxPages)
				} else {
					t.Logf("%s: %d pages", name, pages)
				}
			}
		})
	}
}

func planned(t *testing.T) int {
	t.Helper()
	text := os.Getenv(planScaleVariable)
	if text == "" {
		return planScale
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 10 {
		t.Fatalf("%s: must be a number from 10", planScaleVariable)
	}
	return n
}

// pages runs a statement under EXPLAIN, rolls it back, and returns how many pages it touched.
func (d database) pages(t *testing.T, statement store.Statement) int {
	t.Helper()
	tx, err := d.Begin(t.Context())
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
