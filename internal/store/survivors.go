package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// survivors are the messages of a segment that outlive it, by queue.
type survivors struct {
	queues []string
	counts []int64
}

func (s *survivors) empty() bool { return len(s.queues) == 0 }

func (s *survivors) total() (n int64) {
	for _, count := range s.counts {
		n += count
	}
	return n
}

// What a deleted queue left behind does not survive.
const (
	// openSQL counts messages that are not closed.
	openSQL = `
SELECT q.name, l.n - coalesce(x.n, 0)
FROM (SELECT queue_id, count(*) AS n FROM {log} GROUP BY queue_id) l
JOIN {schema}.queue q ON q.id = l.queue_id
LEFT JOIN (SELECT queue_id, count(*) AS n FROM {closed} GROUP BY queue_id) x ON x.queue_id = l.queue_id
WHERE l.n > coalesce(x.n, 0)`

	// keptSQL counts succeeded messages that are still kept.
	keptSQL = `
SELECT q.name, count(*) FROM {closed} x JOIN {schema}.queue q ON q.id = x.queue_id
WHERE NOT x.moved AND x.closed_at > now() - q.succeeded_retention_ms * interval '1 millisecond'
GROUP BY q.name`
)

// count takes a census of a segment to which nothing is added any more. It returns nil when it is not time for one.
func (r *rotator) count(ctx context.Context, seg segment, statement string) (*survivors, error) {
	if r.now.Before(r.rotation.next[seg.no]) {
		return nil, nil //nolint:nilnil // not known is an answer
	}
	var found *survivors
	err := r.alone(ctx, seg, func(ctx context.Context, tx pgx.Tx) error {
		var began, ended time.Time
		if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&began); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		counts := &survivors{}
		_, err := collect(ctx, tx, func(row pgx.CollectableRow) (struct{}, error) {
			var (
				name string
				n    int64
			)
			err := row.Scan(&name, &n)
			counts.queues, counts.counts = append(counts.queues, name), append(counts.counts, n)
			return struct{}{}, err //nolint:wrapcheck // wrapped by the caller
		}, r.slotSQL(statement, seg.slot))
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&ended); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
		if !counts.empty() {
			r.rest(seg, ended, ended.Sub(began))
		}
		found = counts
		return nil
	})
	return found, err
}

// rest puts the next census of a segment off, by as much as this one has cost.
func (r *rotator) rest(seg segment, now time.Time, took time.Duration) {
	if r.rotation.next == nil {
		r.rotation.next = map[int64]time.Time{}
	}
	if r.Rest > 0 {
		r.rotation.next[seg.no] = now.Add(took * time.Duration(r.Rest))
	}
}

// survivorSlice is how many messages one transaction moves.
const survivorSlice = 500

// The statements take the queue as $1, the last id moved as $2, the most to move as $3 and a nonce as $4, and return
// the ids that they moved.
var (
	// movePendingSQL moves what nobody has claimed, under a claim of its own that is over at once, so that the cursor
	// passes it.
	movePendingSQL = `
WITH q AS MATERIALIZED (SELECT id FROM {schema}.queue WHERE name = $1), reached AS MATERIALIZED (
    SELECT coalesce((SELECT last FROM {claim} WHERE queue_id = q.id ORDER BY first DESC LIMIT 1), 0) AS id FROM q
), next AS MATERIALIZED (
    SELECT l.* FROM {log} l WHERE l.queue_id = (SELECT id FROM q) AND l.id > greatest($2, (SELECT id FROM reached))
    ORDER BY l.id LIMIT $3
), claim AS (
    INSERT INTO {claim} (queue_id, first, last, n, nonce, claimed_at, expires_at, instance, version)
    SELECT queue_id, min(id), max(id), count(*), $4, now(), transaction_timestamp(), '', '' FROM next GROUP BY queue_id
), closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at) SELECT queue_id, id, true, now() FROM next
), counted AS (
    INSERT INTO {delta} SELECT queue_id, -count(*), 0, 0, 0 FROM next GROUP BY queue_id
)
INSERT INTO {schema}.message (id, queue_id, status, payload, headers, max_retries, ready_at, created_at, updated_at,
    expires_at)
OVERRIDING SYSTEM VALUE
SELECT id, queue_id, 'pending', payload, headers, max_retries, n.created_at, created_at, n.created_at, expires_at
FROM next n
RETURNING id`

	// moveLeasedSQL moves what is leased, under the same lease. $4 is not needed.
	moveLeasedSQL = `
WITH held AS MATERIALIZED (
    SELECT l.queue_id, l.id FROM {log} l CROSS JOIN ` + covering("l") + `
    WHERE l.queue_id = ` + queueIDSQL + ` AND l.id > $2 AND $4::bigint IS NOT NULL AND c.last >= l.id
        AND NOT EXISTS (SELECT FROM {closed} x WHERE x.queue_id = l.queue_id AND x.id = l.id OFFSET 0)
    ORDER BY l.id LIMIT $3
), closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at) SELECT queue_id, id, true, now() FROM held
    ON CONFLICT DO NOTHING RETURNING queue_id, id
)` + insertMovedSQL

	// moveKeptSQL moves what has succeeded and is still kept. Of a closed segment, closed is written by nobody else.
	moveKeptSQL = `
WITH kept AS MATERIALIZED (
    SELECT x.queue_id, x.id FROM {closed} x JOIN {schema}.queue q ON q.id = x.queue_id
    WHERE q.name = $1 AND x.id > $2 AND NOT x.moved AND $4::bigint IS NOT NULL
        AND x.closed_at > now() - q.succeeded_retention_ms * interval '1 millisecond'
    ORDER BY x.id LIMIT $3
), done AS (
    UPDATE {closed} x SET moved = true FROM kept k WHERE x.queue_id = k.queue_id AND x.id = k.id
    RETURNING x.queue_id, x.id, x.closed_at
), counted AS (
    INSERT INTO {delta} SELECT queue_id, 0, 0, -count(*), 0 FROM done GROUP BY queue_id
)
INSERT INTO {schema}.message (id, queue_id, status, payload, headers, max_retries, delivery_count, attempt_count,
    ready_at, claimed_at, claimed_by, claimed_version, succeeded_at, created_at, updated_at)
OVERRIDING SYSTEM VALUE
SELECT x.id, x.queue_id, 'succeeded', l.payload, l.headers, l.max_retries, 1, 1, l.created_at, c.claimed_at, c.instance,
    c.version, x.closed_at, l.created_at, x.closed_at
FROM done x CROSS JOIN ` + logged("x") + ` CROSS JOIN ` + covering("x") + `
RETURNING id`
)

// moveAll moves a queue's survivors of one kind to the table message, in slices. Nobody waits for it longer than for an
// enqueue.
func (r *rotator) moveAll(ctx context.Context, seg segment, queue, statement string) error {
	for last, more := int64(0), true; more; {
		more = false
		err := r.alone(ctx, seg, func(ctx context.Context, tx pgx.Tx) error {
			// As a claim, and as whatever else moves messages of the queue.
			if err := r.lock(ctx, tx, claimLock(queue)); err != nil {
				return err
			}
			if err := r.shareLife(ctx, tx, queue); err != nil {
				return err
			}
			ids, err := collect(ctx, tx, pgx.RowTo[int64], r.slotSQL(statement, seg.slot),
				queue, last, survivorSlice, randomNonce())
			for _, id := range ids {
				last = max(last, id)
			}
			r.result.Moved += int64(len(ids))
			more = len(ids) == survivorSlice
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
