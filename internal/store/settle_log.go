package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// anyLease as the first id of a claim stands for whatever lease is current, noLease for a token that names none.
const (
	anyLease = 0
	noLease  = -1
)

// logItems is leases turned into one array per column, each id once and in order of id, so that two batches never wait
// for each other both ways.
type logItems struct{ ids, firsts, nonces []int64 }

func newLogItems(leases []LeaseRef, places []int) logItems {
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(leases[a].ID, leases[b].ID) })
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
	}
	return items
}

// The planner knows nothing of the tables of the log, which are empty one minute and large the next, so the way is laid
// down here: each row is looked up by its key. OFFSET 0 keeps a lookup from being made a join of whole tables.
const (
	// coveringSQL looks up the claim c that covers an id of a queue, if c.last is not below the id.
	coveringSQL = `LATERAL (
        SELECT * FROM {claim} k WHERE k.queue_id = %[1]s AND k.first <= %[2]s ORDER BY k.first DESC LIMIT 1
    ) c`
	// loggedSQL looks up the message l.
	loggedSQL = `LATERAL (SELECT * FROM {log} k WHERE k.queue_id = %[1]s AND k.id = %[2]s OFFSET 0) l`
)

// covering and logged look up what belongs to a row (queue_id, id).
func covering(row string) string { return fmt.Sprintf(coveringSQL, row+".queue_id", row+".id") }

func logged(row string) string { return fmt.Sprintf(loggedSQL, row+".queue_id", row+".id") }

// heldInLogSQL begins a statement on leased messages of the log: the ones of the items, whose lease is current and, if
// the item carries a token, is that token's.
var heldInLogSQL = `
WITH q AS MATERIALIZED (
    SELECT id FROM {schema}.queue WHERE name = $1
), held AS MATERIALIZED (
    SELECT q.id AS queue_id, l.id, l.max_retries, l.created_at, octet_length(l.payload) AS size,
        CASE WHEN i.whole THEN l.payload END AS payload, CASE WHEN i.whole THEN l.headers END AS headers
    FROM q CROSS JOIN unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[]) AS i (id, first, nonce, whole)
    CROSS JOIN ` + fmt.Sprintf(coveringSQL, "q.id", "i.id") + `
    CROSS JOIN ` + fmt.Sprintf(loggedSQL, "q.id", "i.id") + `
    WHERE c.last >= i.id AND c.expires_at > now()
        AND (i.first = 0 OR (i.first = c.first AND i.nonce = c.nonce))
)`

// succeedLogSQL names the messages that were closed here only when not all that were held are: another call was faster.
var succeedLogSQL = heldInLogSQL + `, closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at) SELECT queue_id, id, false, now() FROM held
    ON CONFLICT DO NOTHING RETURNING queue_id, id
), counted AS (
    INSERT INTO {delta} SELECT queue_id, 0, -count(*), count(*), 0 FROM closed GROUP BY queue_id
)
SELECT h.id, h.max_retries, h.created_at, now(), h.size, h.payload, h.headers,
    CASE WHEN (SELECT count(*) FROM closed) < (SELECT count(*) FROM held)
        THEN ARRAY(SELECT id FROM closed) END
FROM held h`

// succeedInLog finishes those of the leases that are in the log and held. The contents come along where whole says so.
func (s *Store) succeedInLog(ctx context.Context, queue string, leases []LeaseRef, whole []bool,
) (done []settledRow, err error) {
	err = s.eachSegment(ctx, s.pool, leases, func(seg segment, places []int) (found []int64, err error) {
		items := newLogItems(leases, places)
		contents := make([]bool, len(places))
		placeOf := make(map[int64]int, len(places))
		for i, place := range places {
			contents[i] = whole[place]
			placeOf[leases[place].ID] = place
		}
		rows, err := acknowledge(ctx, s, succeededOf(queue), s.slotSQL(succeedLogSQL, seg.slot),
			queue, items.ids, items.firsts, items.nonces, contents)
		for _, row := range rows {
			found = append(found, row.ID)
			if row.closed == nil || slices.Contains(*row.closed, row.ID) {
				row.place = placeOf[row.ID]
				done = append(done, row.settledRow)
			}
		}
		return found, err
	})
	return done, err
}

// succeededRow is a message that was held; closed are those that were closed here, nil for all.
type succeededRow struct {
	settledRow

	closed *[]int64
}

// succeededOf is a row scanner for messages that have just succeeded in the log.
func succeededOf(queue string) func(pgx.CollectableRow) (succeededRow, error) {
	return func(row pgx.CollectableRow) (r succeededRow, err error) {
		var headers []byte
		m := &r.Message
		m.Queue, m.Status, m.DeliveryCount = queue, message.Succeeded, 1
		err = row.Scan(&m.ID, &m.MaxRetries, &m.CreatedAt, &m.UpdatedAt, &m.PayloadSize, &m.Payload, &headers, &r.closed)
		m.CreatedAt, m.UpdatedAt = m.CreatedAt.UTC(), m.UpdatedAt.UTC()
		if err != nil || headers == nil {
			return r, err //nolint:wrapcheck // wrapped by the operation
		}
		m.Headers, err = decodeHeaders(headers)
		return r, err
	}
}

// eachSegment calls f for each segment that may hold some of the messages, with the places of those; f returns the ids
// that it found. A message that is named twice is in a later call, as if the items came one after the other.
func (s *Store) eachSegment(ctx context.Context, db querier, leases []LeaseRef, f func(segment, []int) ([]int64, error),
) error {
	live, err := s.liveSegments(ctx, db)
	if err != nil {
		return err
	}
	for places := allPlaces(leases); len(places) > 0; {
		round, again := eachOnce(leases, places)
		missing, err := inSegments(live, leases, round, f)
		if err != nil {
			return err
		}
		// What is not in the newest segment known of may be in one that is newer.
		if len(missing) > 0 {
			newest := live.current().no
			if live, err = s.reloadSegments(ctx, db); err != nil {
				return err
			}
			if live.current().no != newest {
				if _, err := inSegments(live, leases, missing, f); err != nil {
					return err
				}
			}
		}
		places = again
	}
	return nil
}

// eachOnce takes the first place of each message; again are the others.
func eachOnce(leases []LeaseRef, places []int) (round, again []int) {
	seen := make(map[int64]bool, len(places))
	for _, place := range places {
		if id := leases[place].ID; !seen[id] {
			seen[id] = true
			round = append(round, place)
		} else {
			again = append(again, place)
		}
	}
	return round, again
}

// inSegments calls f for each of the segments and returns the places of messages that would be in the newest one and
// were not found.
func inSegments(live segments, leases []LeaseRef, places []int, f func(segment, []int) ([]int64, error),
) (missing []int, err error) {
	bySegment := map[int64][]int{}
	for _, place := range places {
		if seg, ok := live.of(leases[place].ID); ok {
			bySegment[seg.no] = append(bySegment[seg.no], place)
		}
	}
	for _, seg := range live {
		if len(bySegment[seg.no]) == 0 {
			continue
		}
		found, err := f(seg, bySegment[seg.no])
		if err != nil {
			return nil, err
		}
		if seg.no == live.current().no && len(found) < len(bySegment[seg.no]) {
			missing = slices.DeleteFunc(bySegment[seg.no], func(place int) bool {
				return slices.Contains(found, leases[place].ID)
			})
		}
	}
	return missing, nil
}

func allPlaces(leases []LeaseRef) []int {
	places := make([]int, len(leases))
	for i := range places {
		places[i] = i
	}
	return places
}

// moveSQL takes leased messages out of the log and into the table message, where they go on under the same lease.
var moveSQL = heldInLogSQL + `, closed AS (
    INSERT INTO {closed} (queue_id, id, moved, closed_at) SELECT queue_id, id, true, now() FROM held
    ON CONFLICT DO NOTHING RETURNING queue_id, id
)` + insertMovedSQL

// insertMovedSQL continues a statement with the CTE closed, which names the messages that are its to move.
var insertMovedSQL = `, counted AS (
    INSERT INTO {delta} SELECT queue_id, 0, -count(*), 0, 0 FROM closed GROUP BY queue_id
)
INSERT INTO {schema}.message (id, queue_id, status, payload, headers, max_retries, delivery_count, attempt_count,
    ready_at, lease_token, lease_expires_at, claimed_at, claimed_by, claimed_version, created_at, updated_at,
    expires_at)
OVERRIDING SYSTEM VALUE
SELECT x.id, x.queue_id, 'processing', l.payload, l.headers, l.max_retries, 1, 1,
    l.created_at, (` + logTokenSQL + `)::uuid, c.expires_at, c.claimed_at, c.instance, c.version,
    l.created_at, c.claimed_at, l.expires_at
FROM closed x CROSS JOIN ` + logged("x") + ` CROSS JOIN ` + covering("x") + `
RETURNING id`

// moveFromLog takes those of the leases that are held in the log into the table message.
func (s *Store) moveFromLog(ctx context.Context, tx pgx.Tx, queue string, leases []LeaseRef) error {
	if err := s.shareLife(ctx, tx, queue); err != nil {
		return err
	}
	return s.eachSegment(ctx, tx, leases, func(seg segment, places []int) ([]int64, error) {
		items := newLogItems(leases, places)
		return collect(ctx, tx, pgx.RowTo[int64], s.slotSQL(moveSQL, seg.slot), queue, items.ids, items.firsts,
			items.nonces, make([]bool, len(places)))
	})
}

// acknowledge runs one statement in a transaction of its own, which waits for the disk unless the Store was opened to
// let a crash of the database undo acknowledgements.
func acknowledge[T any](ctx context.Context, s *Store, scan func(pgx.CollectableRow) (T, error), statement string,
	args ...any,
) (rows []T, err error) {
	if !s.relaxedAcks {
		return collect(ctx, s.pool, scan, statement, args...)
	}
	batch := &pgx.Batch{}
	batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	batch.Queue(statement, args...).Query(func(result pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(result, scan)
		return err //nolint:wrapcheck // wrapped by the caller
	})
	err = s.pool.SendBatch(ctx, batch).Close()
	return rows, err //nolint:wrapcheck // wrapped by the caller
}
