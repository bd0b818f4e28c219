package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// History kept of a message: its first and its newest attempts (and replays); what lies between goes.
const (
	keptFirstAttempts = 10
	keptLastAttempts  = 40
)

var lockHeldSQL = `
SELECT ` + messageColumns + `, q.name, now(), item.place, ` + queueColumns + `
FROM {schema}.message m
JOIN ` + itemsSQL + ` ON m.id = item.id
JOIN {schema}.queue q ON q.id = m.queue_id
WHERE ` + heldSQL + `
ORDER BY m.id, item.place FOR UPDATE OF m`

var lockExpiredSQL = `
SELECT ` + messageColumns + `, q.name, now(), 0, ` + queueColumns + `
FROM {schema}.message m
JOIN {schema}.queue q ON q.id = m.queue_id
WHERE m.status = 'processing' AND m.lease_expires_at <= now()
ORDER BY m.lease_expires_at LIMIT $1
FOR UPDATE OF m SKIP LOCKED`

// leased is a locked message with the settings that decide on it.
type leased struct {
	messageRow
	settings message.Settings
	now      time.Time
	// place counts the item of the batch that holds the message, from 1.
	place int64
}

// judged is a leased message with what is to become of it.
type judged struct {
	leased
	outcome message.Outcome
	verdict message.Verdict
}

func scanLeased(row pgx.CollectableRow) (leased, error) {
	var (
		l     leased
		queue string
		scan  settingsScan
	)
	m, err := scanMessage(row, "", append([]any{&queue, &l.now, &l.place}, scan.targets()...)...)
	if err != nil {
		return l, err
	}
	m.Queue = queue
	l.messageRow, l.settings, l.now = m, scan.settings(), l.now.UTC()
	return l, nil
}

// Fail implements Engine. Failures in one queue at one time go together.
func (s *Store) Fail(ctx context.Context, queue string, failures []FailedLease) ([]Settled, error) {
	if len(failures) == 0 {
		return nil, nil
	}
	prepared := make([]FailedLease, len(failures))
	for i, failure := range failures {
		prepared[i] = FailedLease{failure.LeaseRef, failure.Report.Prepare()}
	}
	results, err := s.fails.Do(ctx, queue, prepared)
	if err != nil {
		return nil, fmt.Errorf("fail: %w", err)
	}
	return results, nil
}

// failAll records the failures of several calls.
func (s *Store) failAll(ctx context.Context, queue string, calls [][]FailedLease) ([][]Settled, error) {
	failures := slices.Concat(calls...)
	leases := make([]LeaseRef, len(failures))
	for i, failure := range failures {
		leases[i] = failure.LeaseRef
	}
	var results []Settled
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.moveFromLog(ctx, tx, queue, leases); err != nil {
			return err
		}
		done, err := s.judge(ctx, tx, queue, leases, failures)
		if err != nil {
			return err
		}
		results, err = s.settled(ctx, tx, queue, leases, done)
		return err
	})
	if err == nil {
		failed := 0
		for i := range results {
			if results[i].Err == nil {
				failed++
			}
		}
		s.breakers.count(queue, 0, failed)
	}
	return deal(results, calls), err
}

// judge decides on the failures whose lease is held.
func (s *Store) judge(ctx context.Context, tx pgx.Tx, queue string, leases []LeaseRef, failures []FailedLease,
) ([]settledRow, error) {
	ids, tokens := leaseArgs(leases)
	held, err := collect(ctx, tx, scanLeased, s.sql(lockHeldSQL), queue, ids, tokens)
	if err != nil {
		return nil, err
	}
	// Of several items that hold one message the first counts.
	held = slices.CompactFunc(held, func(a, b leased) bool { return a.ID == b.ID })
	verdicts := make([]judged, len(held))
	places := make(map[int64]int, len(held))
	for i, l := range held {
		places[l.ID] = int(l.place) - 1
		verdict := l.settings.Fail(l.Message, failures[places[l.ID]].Report, l.now, s.jitter())
		verdicts[i] = judged{l, message.OutcomeFailed, verdict}
	}
	rows, err := s.applyVerdicts(ctx, tx, verdicts)
	done := make([]settledRow, len(rows))
	for i, row := range rows {
		row.Queue = queue
		done[i] = settledRow{row.Message, places[row.ID]}
	}
	return done, err
}

// ExpireLeases implements Engine.
func (s *Store) ExpireLeases(ctx context.Context, limit int) (int, error) {
	if err := s.expireInLog(ctx, limit); err != nil {
		return 0, fmt.Errorf("expire leases: %w", err)
	}
	var ended []leased
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		held, err := collect(ctx, tx, scanLeased, s.sql(lockExpiredSQL), limit)
		if err != nil {
			return err
		}
		verdicts := make([]judged, len(held))
		for i, l := range held {
			verdicts[i] = judged{l, message.OutcomeExpired, l.settings.Expire(l.Message, l.now, s.jitter())}
		}
		_, err = s.applyVerdicts(ctx, tx, verdicts)
		ended = held
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("expire leases: %w", err)
	}
	for i := range ended {
		s.breakers.count(ended[i].Queue, 0, 1)
	}
	return len(ended), nil
}

const applyVerdictsSQL = `
UPDATE {schema}.message m
SET status = v.status, retry_count = v.retry_count,
    ready_at = coalesce(v.retry_after, m.ready_at), delayed = v.status = 'pending',
    dead_at = CASE WHEN v.status = 'dead' THEN now() END,
    lease_token = NULL, lease_expires_at = NULL,
    failure_reason = v.reason, failure_category = v.category, fingerprint = v.fingerprint, error_class = v.class,
    failed_by = v.instance, failed_version = v.version,
    first_failure_at = coalesce(m.first_failure_at, now()), last_failure_at = now(), updated_at = now()
FROM unnest($1::bigint[], $2::text[], $3::int[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[])
    AS v (id, status, retry_count, retry_after, reason, category, fingerprint, class, instance, version)
WHERE m.id = v.id
RETURNING ` + messageColumns

const recordAttemptsSQL = `
INSERT INTO {schema}.attempt (message_id, number, started_at, ended_at, outcome, instance, version, reason, category,
    fingerprint, error_class, stack_trace)
SELECT a.id, a.number, coalesce(a.started_at, now()), now(), a.outcome, a.instance, a.version, a.reason, a.category,
    a.fingerprint, a.class, a.stack
FROM unnest($1::bigint[], $2::int[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[])
    AS a (id, number, started_at, outcome, instance, version, reason, category, fingerprint, class, stack)`

const trimAttemptsSQL = `
DELETE FROM {schema}.attempt a USING unnest($1::bigint[], $2::int[]) AS newest (id, number)
WHERE a.message_id = newest.id AND a.number > $3 AND a.number <= newest.number - $4`

// applyVerdicts moves locked messages and writes their history, in one round trip.
func (s *Store) applyVerdicts(ctx context.Context, tx pgx.Tx, verdicts []judged) ([]messageRow, error) {
	if len(verdicts) == 0 {
		return nil, nil
	}
	c := newVerdictColumns(verdicts)
	var done []messageRow
	batch := &pgx.Batch{}
	batch.Queue(s.sql(applyVerdictsSQL), c.id, c.status, c.retryCount, c.retryAfter, c.reason, c.category,
		c.fingerprint, c.class, c.instance, c.version).Query(func(rows pgx.Rows) (err error) {
		done, err = pgx.CollectRows(rows, messageOf(""))
		return err //nolint:wrapcheck // wrapped by the operation
	})
	batch.Queue(s.sql(recordAttemptsSQL), c.id, c.number, c.startedAt, c.outcome, c.instance, c.version, c.reason,
		c.category, c.fingerprint, c.class, c.stack)
	batch.Queue(s.sql(trimAttemptsSQL), c.id, c.number, keptFirstAttempts, keptLastAttempts)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err //nolint:wrapcheck // wrapped by the operation
	}
	return done, nil
}

// verdictColumns is verdicts turned into one array per column.
type verdictColumns struct {
	id                                           []int64
	retryCount, number                           []int32
	retryAfter, startedAt                        []*time.Time
	status, outcome, reason, category            []string
	fingerprint, class, stack, instance, version []string
}

func newVerdictColumns(verdicts []judged) verdictColumns {
	var c verdictColumns
	for _, j := range verdicts {
		failure := j.verdict.Failure
		c.id = append(c.id, j.ID)
		c.retryCount = append(c.retryCount, int32(j.verdict.RetryCount)) //nolint:gosec // at most max_retries
		c.number = append(c.number, int32(j.attemptCount))               //nolint:gosec // read from an integer column
		c.startedAt = append(c.startedAt, j.claimedAt)
		c.retryAfter = append(c.retryAfter, nonZero(j.verdict.RetryAfter))
		c.status = append(c.status, string(j.verdict.Status))
		c.outcome = append(c.outcome, string(j.outcome))
		c.reason = append(c.reason, failure.Reason)
		c.category = append(c.category, string(failure.Category))
		c.fingerprint = append(c.fingerprint, failure.Fingerprint)
		c.class = append(c.class, failure.ErrorClass)
		c.stack = append(c.stack, failure.StackTrace)
		c.instance = append(c.instance, failure.Consumer.Instance)
		c.version = append(c.version, failure.Consumer.Version)
	}
	return c
}

func nonZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
