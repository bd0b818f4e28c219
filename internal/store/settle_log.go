package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// anyLease as the first id of a claim stands for whatever lease is current, noLease for a token that names none.
const (
	anyLease = 0
	noLease  = -1
)

// logItems is leases turned into one array per column, in order of id, so that two batches never wait for each other
// both ways. place is where the item is in the call.
type logItems struct {
	ids, firsts, nonces []int64
	places              []int32
}

func newLogItems(leases []LeaseRef, places []int) logItems {
	places = slices.Clone(places)
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(leases[a].ID, leases[b].ID) })
	var items logItems
	for _, place := range places {
		first, nonce := int64(anyLease), int64(0)
		if token := leases[place].Token; token != "" {
			if first, nonce = parseToken(token); first <= 0 {
				first = noLease
			}
		}
		items.ids = append(items.ids, leases[place].ID)
		items.firsts, items.nonces = append(items.firsts, first), append(items.nonces, nonce)
		items.places = append(items.places, int32(place)) //nolint:gosec // at most a batch
	}
	return items
}

// heldInLogSQL begins a statement on leased messages of the log: the ones of the items, whose lease is current and, if
// the item carries a token, is that token's.
const heldInLogSQL = `
WITH q AS MATERIALIZED (
    SELECT id FROM {schema}.queue WHERE name = $1
), held AS MATERIALIZED (
    SELECT i.place, l.queue_id, l.id, c.first, c.nonce, c.claimed_at, c.expires_at, c.instance, c.version
    FROM q CROSS JOIN unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::int[]) AS i (id, first, nonce, place)
    JOIN {log} l ON l.queue_id = q.id AND l.id = i.id
    CROSS JOIN LATERAL (
        SELECT * FROM {claim} k WHERE k.queue_id = q.id AND k.first <= i.id ORDER BY k.first DESC LIMIT 1
    ) c
    WHERE c.last >= i.id AND c.expires_at > now()
        AND (i.first = 0 OR (i.first = c.first AND i.nonce = c.nonce))
    ORDER BY i.id, i.place
)`

const succeedLogSQL = heldInLogSQL + `, closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at)
    SELECT queue_id, id, false, now() FROM held
    ON CONFLICT DO NOTHING RETURNING queue_id, id
), counted AS (
    INSERT INTO {delta} SELECT queue_id, 0, -count(*), count(*), 0 FROM closed GROUP BY queue_id
)
SELECT h.place, h.id, l.max_retries, l.created_at, now(), octet_length(l.payload),
    CASE WHEN ($6::boolean[])[h.place + 1] THEN l.payload END, CASE WHEN ($6::boolean[])[h.place + 1] THEN l.headers END
FROM closed x JOIN held h ON h.id = x.id JOIN {log} l ON l.queue_id = x.queue_id AND l.id = x.id
ORDER BY h.id, h.place`

// succeedInLog finishes those of the leases that are in the log and held. The contents come along where whole says so.
func (s *Store) succeedInLog(ctx context.Context, queue string, leases []LeaseRef, whole []bool,
) (done []settledRow, err error) {
	err = s.eachSegment(ctx, leases, func(seg segment, items logItems) error {
		rows, err := relaxedRows(ctx, s, succeededOf(queue), s.slotSQL(succeedLogSQL, seg.slot),
			queue, items.ids, items.firsts, items.nonces, items.places, whole)
		// The same message twice in one call: the first item has it.
		rows = slices.CompactFunc(rows, func(a, b settledRow) bool { return a.ID == b.ID })
		done = append(done, rows...)
		return err
	})
	return done, err
}

// succeededOf is a row scanner for messages that have just succeeded in the log.
func succeededOf(queue string) func(pgx.CollectableRow) (settledRow, error) {
	return func(row pgx.CollectableRow) (r settledRow, err error) {
		var headers []byte
		m := &r.Message
		m.Queue, m.Status, m.DeliveryCount = queue, message.Succeeded, 1
		err = row.Scan(&r.place, &m.ID, &m.MaxRetries, &m.CreatedAt, &m.UpdatedAt, &m.PayloadSize, &m.Payload, &headers)
		m.CreatedAt, m.UpdatedAt = m.CreatedAt.UTC(), m.UpdatedAt.UTC()
		if err != nil || headers == nil {
			return r, err //nolint:wrapcheck // wrapped by the operation
		}
		m.Headers, err = decodeHeaders(headers)
		return r, err
	}
}

// eachSegment calls f for each segment that may hold some of the messages.
func (s *Store) eachSegment(ctx context.Context, leases []LeaseRef, f func(segment, logItems) error) error {
	live, err := s.liveSegments(ctx)
	if err != nil {
		return err
	}
	bySegment := map[int64][]int{}
	for place, lease := range leases {
		if seg, ok := live.of(lease.ID); ok {
			bySegment[seg.no] = append(bySegment[seg.no], place)
		}
	}
	for _, seg := range live {
		if places := bySegment[seg.no]; len(places) > 0 {
			if err := f(seg, newLogItems(leases, places)); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveSQL takes leased messages out of the log and into the table message, where they go on under the same lease.
var moveSQL = heldInLogSQL + `, closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at)
    SELECT DISTINCT ON (id) queue_id, id, true, now() FROM held ORDER BY id
    ON CONFLICT DO NOTHING RETURNING queue_id, id
), counted AS (
    INSERT INTO {delta} SELECT queue_id, 0, -count(*), 0, 0 FROM closed GROUP BY queue_id
)` + insertMovedSQL

// insertMovedSQL continues a statement with the CTEs held, which describes leased messages of the log, and closed, those
// of them that are its to move.
var insertMovedSQL = `
INSERT INTO {schema}.message (id, queue_id, status, payload, headers, max_retries, delivery_count, attempt_count,
    ready_at, lease_token, lease_expires_at, claimed_at, claimed_by, claimed_version, created_at, updated_at)
OVERRIDING SYSTEM VALUE
SELECT DISTINCT ON (h.id) h.id, h.queue_id, 'processing', l.payload, l.headers, l.max_retries, 1, 1,
    l.created_at, (` + tokenSQL("h.first", "h.nonce") + `)::uuid, h.expires_at, h.claimed_at, h.instance, h.version,
    l.created_at, h.claimed_at
FROM closed x JOIN held h ON h.id = x.id JOIN {log} l ON l.queue_id = x.queue_id AND l.id = x.id
ORDER BY h.id`

// moveFromLog takes those of the leases that are held in the log into the table message.
func (s *Store) moveFromLog(ctx context.Context, tx pgx.Tx, queue string, leases []LeaseRef) error {
	if err := s.shareLife(ctx, tx, queue); err != nil {
		return err
	}
	return s.eachSegment(ctx, leases, func(seg segment, items logItems) error {
		_, err := tx.Exec(ctx, s.slotSQL(moveSQL, seg.slot), queue, items.ids, items.firsts, items.nonces, items.places)
		return err //nolint:wrapcheck // wrapped by the operation
	})
}

// relaxedRows runs one statement in a transaction that does not wait for the disk.
func relaxedRows[T any](ctx context.Context, s *Store, scan func(pgx.CollectableRow) (T, error), statement string,
	args ...any,
) (rows []T, err error) {
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	batch.Queue(statement, args...).Query(func(result pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(result, scan)
		return err //nolint:wrapcheck // wrapped by the caller
	})
	return rows, s.pool.SendBatch(ctx, batch).Close() //nolint:wrapcheck // wrapped by the caller
}
