package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// itemsSQL is a batch as the rows item (id, token, place).
const itemsSQL = `unnest($2::bigint[], $3::text[]) WITH ORDINALITY AS item (id, token, place)`

// heldSQL is the fence, of a message m and an item (id, token): the lease is current and, if the call carries a token,
// it is that lease's. Each statement locks in id order, so that batches do not deadlock.
const heldSQL = `m.queue_id = ` + queueIDSQL + `
	AND m.status = 'processing' AND m.lease_expires_at > now()
	AND (item.token = '' OR m.lease_token::text = item.token)`

const succeedSQL = `
WITH held AS MATERIALIZED (
    SELECT m.id, item.place FROM {schema}.message m JOIN ` + itemsSQL + ` ON m.id = item.id
    WHERE ` + heldSQL + `
    ORDER BY m.id FOR UPDATE OF m
), first AS (
    SELECT id, min(place) AS place FROM held GROUP BY id
)
UPDATE {schema}.message m
SET status = 'succeeded', succeeded_at = now(), lease_token = NULL, lease_expires_at = NULL, updated_at = now()
FROM first WHERE m.id = first.id
RETURNING ` + messageColumns + `, first.place`

// Succeed implements Engine. Acknowledgements of one queue at one time go together.
func (s *Store) Succeed(ctx context.Context, queue string, leases []LeaseRef) ([]Settled, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	results, err := s.succeeds.Do(ctx, queue, leases)
	if err != nil {
		return nil, fmt.Errorf("succeed: %w", err)
	}
	return results, nil
}

// succeedAll finishes the messages of several calls.
func (s *Store) succeedAll(ctx context.Context, queue string, calls [][]LeaseRef) ([][]Settled, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var leases []LeaseRef
	var whole []bool
	for _, call := range calls {
		for _, lease := range call {
			leases, whole = append(leases, lease), append(whole, len(call) == 1)
		}
	}
	done, err := s.succeedInLog(ctx, queue, leases, whole)
	if err == nil && len(done) < len(leases) {
		done, err = s.succeedOthers(ctx, queue, leases, done)
	}
	if err != nil && len(done) == 0 {
		return nil, err
	}
	if err != nil {
		s.breakers.count(queue, len(done), 0)
		return deal(partly(leases, done, err), calls), nil
	}
	results, err := s.settled(ctx, s.pool, queue, leases, done)
	s.breakers.count(queue, len(done), 0)
	return deal(results, calls), err
}

// partly are the results when some items were done before an error: it is that of the others.
func partly(leases []LeaseRef, done []settledRow, err error) []Settled {
	results := make([]Settled, len(leases))
	for i := range results {
		results[i].Err = err
	}
	for _, row := range done {
		results[row.place] = Settled{Message: row.Message}
	}
	return results
}

// deal gives each call the results of its items.
func deal[T any](results []Settled, calls [][]T) [][]Settled {
	if len(results) == 0 {
		return nil
	}
	answers := make([][]Settled, len(calls))
	for i, call := range calls {
		answers[i], results = results[:len(call):len(call)], results[len(call):]
	}
	return answers
}

// succeedOthers finishes messages of the table message and adds them to those that are done.
func (s *Store) succeedOthers(ctx context.Context, queue string, leases []LeaseRef, done []settledRow,
) ([]settledRow, error) {
	inLog := make(map[int64]bool, len(done))
	for i := range done {
		inLog[done[i].ID] = true
	}
	var (
		others []LeaseRef
		places []int
	)
	for place, lease := range leases {
		if !inLog[lease.ID] {
			others, places = append(others, lease), append(places, place)
		}
	}
	if len(others) == 0 {
		return done, nil
	}
	ids, tokens := leaseArgs(others)
	rows, err := acknowledge(ctx, s, settledOf(queue), s.sql(succeedSQL), queue, ids, tokens)
	for _, row := range rows {
		done = append(done, settledRow{row.Message, places[row.place]})
	}
	return done, err
}

// settledRow is a message that was settled, by the item of this place.
type settledRow struct {
	message.Message
	place int
}

func settledOf(queue string) func(pgx.CollectableRow) (settledRow, error) {
	return func(row pgx.CollectableRow) (settledRow, error) {
		var place int64
		m, err := scanMessage(row, queue, &place)
		return settledRow{m.Message, int(place) - 1}, err
	}
}

func leaseArgs(leases []LeaseRef) ([]int64, []string) {
	ids := make([]int64, len(leases))
	tokens := make([]string, len(leases))
	for i, lease := range leases {
		ids[i], tokens[i] = lease.ID, lease.Token
	}
	return ids, tokens
}

// settled pairs what was asked with what was done, and finds out why the rest was refused. Several items with one id
// are answered as calls in that order would be: the first that holds the lease settles it.
func (s *Store) settled(ctx context.Context, db querier, queue string, leases []LeaseRef, done []settledRow,
) ([]Settled, error) {
	byID := make(map[int64]settledRow, len(done))
	for _, row := range done {
		byID[row.ID] = row
	}
	results := make([]Settled, len(leases))
	var refused []int
	for i, lease := range leases {
		row, ok := byID[lease.ID]
		switch {
		case !ok:
			refused = append(refused, i)
		case i < row.place: // The lease was current then, and not this item's.
			results[i].Err = ErrStaleLease
		case i > row.place:
			results[i].Err = ErrNotProcessing
		default:
			results[i].Message = row.Message
		}
	}
	if len(refused) == 0 {
		return results, nil
	}
	reasons, err := s.refusals(ctx, db, queue, leases)
	for _, i := range refused {
		// Not knowing why is no reason to hide what was done for the others.
		if results[i].Err = err; err == nil {
			results[i].Err = reasons(leases[i])
		}
	}
	return results, nil
}

// refusalSQL tells the states of messages in both places.
var refusalSQL = `
SELECT m.id, m.status = 'processing' AND m.lease_expires_at > now(), coalesce(m.lease_token::text, '')
FROM {schema}.message m
WHERE m.queue_id = ` + queueIDSQL + ` AND m.id = ANY ($2)
UNION ALL ` + everySlot(`
SELECT l.id, `+leasedSQL+` AND c.expires_at > now(), coalesce(`+logTokenSQL+`, '')`+logFromSQL+`
WHERE l.queue_id = `+queueIDSQL+` AND l.id = ANY ($2) AND x.moved IS NOT TRUE`)

// refusals returns a function that says why a lease is not held.
func (s *Store) refusals(ctx context.Context, db querier, queue string, leases []LeaseRef,
) (func(LeaseRef) error, error) {
	type state struct {
		id    int64
		held  bool
		token string
	}
	ids, _ := leaseArgs(leases)
	states, err := collect(ctx, db, func(row pgx.CollectableRow) (st state, err error) {
		err = row.Scan(&st.id, &st.held, &st.token)
		return st, err //nolint:wrapcheck // wrapped below
	}, s.sql(refusalSQL), queue, ids)
	if err != nil {
		return nil, fmt.Errorf("look up refused messages: %w", err)
	}
	byID := make(map[int64]state, len(states))
	for _, st := range states {
		byID[st.id] = st
	}
	return func(lease LeaseRef) error {
		st, found := byID[lease.ID]
		switch {
		case !found:
			return ErrNotFound
		case st.held && lease.Token != "" && st.token != lease.Token:
			return ErrStaleLease
		default:
			return ErrNotProcessing
		}
	}, nil
}

const extendSQL = `
WITH item (id, token) AS (VALUES ($2::bigint, $3::text)), held AS MATERIALIZED (
    SELECT m.id FROM {schema}.message m JOIN item ON m.id = item.id WHERE ` + heldSQL + ` FOR UPDATE OF m
)
UPDATE {schema}.message m
SET lease_expires_at = now() + $4::bigint * interval '1 millisecond', updated_at = now()
FROM held WHERE m.id = held.id
RETURNING ` + messageColumns

// Extend implements Engine.
func (s *Store) Extend(ctx context.Context, queue string, lease LeaseRef, by time.Duration) (message.Message, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	m, err := s.changeLease(ctx, queue, lease, extendSQL, millis(by))
	if err != nil {
		return m, fmt.Errorf("extend: %w", err)
	}
	return m, nil
}

// A release without delay keeps its ready time, and so its place in the order. The claim is taken back from
// delivery_count, so that handing messages back at shutdown never makes one look like poison.
const releaseSQL = `
WITH item (id, token) AS (VALUES ($2::bigint, $3::text)), held AS MATERIALIZED (
    SELECT m.id, m.attempt_count, m.claimed_at, m.claimed_by, m.claimed_version
    FROM {schema}.message m JOIN item ON m.id = item.id WHERE ` + heldSQL + ` FOR UPDATE OF m
), history AS (
    INSERT INTO {schema}.attempt (message_id, number, started_at, ended_at, outcome, instance, version)
    SELECT id, attempt_count, claimed_at, now(), 'released', claimed_by, claimed_version FROM held
), trimmed AS (
    DELETE FROM {schema}.attempt a USING held
    WHERE a.message_id = held.id AND a.number > $5 AND a.number <= held.attempt_count - $6
)
UPDATE {schema}.message m
SET status = 'pending', delivery_count = m.delivery_count - 1, lease_token = NULL, lease_expires_at = NULL,
    ready_at = CASE WHEN $4::bigint > 0 THEN now() + $4::bigint * interval '1 millisecond' ELSE m.ready_at END,
    delayed = $4::bigint > 0, updated_at = now()
FROM held WHERE m.id = held.id
RETURNING ` + messageColumns

// Release implements Engine.
func (s *Store) Release(ctx context.Context, queue string, lease LeaseRef, delay time.Duration,
) (message.Message, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	m, err := s.changeLease(ctx, queue, lease, releaseSQL, millis(delay), keptFirstAttempts, keptLastAttempts)
	if err != nil {
		return m, fmt.Errorf("release: %w", err)
	}
	return m, nil
}

// changeLease runs a statement on one leased message, which leaves the log for it.
func (s *Store) changeLease(ctx context.Context, queue string, lease LeaseRef, statement string, args ...any,
) (changed message.Message, err error) {
	leases := []LeaseRef{lease}
	args = append([]any{queue, lease.ID, lease.Token}, args...)
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.moveFromLog(ctx, tx, queue, leases); err != nil {
			return err
		}
		rows, err := collect(ctx, tx, messageOf(queue), s.sql(statement), args...)
		if err != nil {
			return err
		}
		var done []settledRow
		for _, row := range rows {
			done = append(done, settledRow{Message: row.Message})
		}
		results, err := s.settled(ctx, tx, queue, leases, done)
		if err != nil {
			return err
		}
		changed = results[0].Message
		return results[0].Err
	})
	return changed, err //nolint:wrapcheck // wrapped by the operation
}
