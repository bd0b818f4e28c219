package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// breakers is what this process knows of circuit breakers: which queues have one, as of the last JudgeBreakers, and how
// their messages have ended since.
type breakers struct {
	known atomic.Pointer[map[string]bool]

	mu      sync.Mutex
	samples map[string]breakerSample
}

type breakerSample struct{ succeeded, failed int64 }

func (b *breakers) has(queue string) bool {
	known := b.known.Load()
	return known != nil && (*known)[queue]
}

// count notes how messages ended. Of a queue without a breaker nothing is kept.
func (b *breakers) count(queue string, succeeded, failed int) {
	if !b.has(queue) || succeeded+failed == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.samples == nil {
		b.samples = map[string]breakerSample{}
	}
	sample := b.samples[queue]
	b.samples[queue] = breakerSample{sample.succeeded + int64(succeeded), sample.failed + int64(failed)}
}

func (b *breakers) take() map[string]breakerSample {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.samples
	b.samples = nil
	return taken
}

// BreakerChange is a circuit breaker that has changed.
type BreakerChange struct {
	Queue string
	State message.BreakerState
}

const (
	// breakerLock is held by the process that judges.
	breakerLock = "breaker"

	breakerQueuesSQL = `SELECT name FROM {schema}.queue WHERE breaker_window_ms > 0`

	recordSamplesSQL = `
INSERT INTO {schema}.breaker_sample (queue_id, at, succeeded, failed)
SELECT q.id, now(), s.succeeded, s.failed
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS s (name, succeeded, failed)
JOIN {schema}.queue q ON q.name = s.name`

	// judgeBreakersSQL moves breakers on. Outcomes count since the last change. One that is half open while its probes do
	// not end, because their worker is gone or slow, hands out others after a while.
	judgeBreakersSQL = `
WITH seen AS MATERIALIZED (
    SELECT q.id, coalesce(sum(s.succeeded), 0) AS succeeded, coalesce(sum(s.failed), 0) AS failed
    FROM {schema}.queue q
    LEFT JOIN {schema}.breaker_sample s ON s.queue_id = q.id
        AND s.at > q.breaker_changed_at
        AND (q.breaker = 'HalfOpen' OR s.at > now() - q.breaker_window_ms * interval '1 millisecond')
    WHERE q.breaker_window_ms > 0 GROUP BY q.id
), next AS MATERIALIZED (
    SELECT q.id, CASE
        WHEN q.breaker = 'Closed' AND s.succeeded + s.failed >= q.breaker_min_sample
            AND s.failed * 100 >= q.breaker_failure_percent * (s.succeeded + s.failed) THEN 'Open'
        WHEN q.breaker = 'Open' AND q.breaker_open_until <= now() THEN 'HalfOpen'
        WHEN q.breaker = 'HalfOpen' AND s.failed > 0 THEN 'Open'
        WHEN q.breaker = 'HalfOpen' AND s.succeeded >= q.breaker_probes THEN 'Closed'
        WHEN q.breaker = 'HalfOpen' AND q.breaker_probes_left = 0 AND q.breaker_changed_at <= now()
            - interval '1 millisecond' * greatest(q.breaker_open_ms, q.visibility_timeout_ms) THEN 'HalfOpen'
        END AS state
    FROM {schema}.queue q JOIN seen s ON s.id = q.id
)
UPDATE {schema}.queue q
SET breaker = n.state, breaker_changed_at = now(),
    breaker_open_until = CASE n.state WHEN 'Open' THEN now() + q.breaker_open_ms * interval '1 millisecond' END,
    breaker_probes_left = CASE n.state WHEN 'HalfOpen' THEN q.breaker_probes ELSE 0 END
FROM next n WHERE q.id = n.id AND n.state IS NOT NULL
RETURNING q.name, q.breaker`

	// forgetSamplesSQL removes what no window reaches any more.
	forgetSamplesSQL = `
DELETE FROM {schema}.breaker_sample s WHERE NOT EXISTS (
    SELECT FROM {schema}.queue q
    WHERE q.id = s.queue_id AND (s.at > now() - q.breaker_window_ms * interval '1 millisecond'
        OR q.breaker = 'HalfOpen' AND s.at > q.breaker_changed_at) OFFSET 0)`

	takeProbesSQL = `
WITH open AS MATERIALIZED (
    SELECT id, least(breaker_probes_left, $2) AS n FROM {schema}.queue
    WHERE name = $1 AND breaker = 'HalfOpen' AND breaker_probes_left > 0 FOR UPDATE
)
UPDATE {schema}.queue q SET breaker_probes_left = q.breaker_probes_left - open.n FROM open WHERE q.id = open.id
RETURNING open.n`

	giveProbesSQL = `
UPDATE {schema}.queue SET breaker_probes_left = breaker_probes_left + $2 WHERE name = $1 AND breaker = 'HalfOpen'`

	retryAfterSQL = `
SELECT CASE WHEN breaker = 'Open' THEN greatest(breaker_open_until - now(), interval '0') ELSE interval '1 second' END
FROM {schema}.queue WHERE name = $1 AND breaker <> 'Closed'`
)

// JudgeBreakers records how messages have ended in this process since the last call, and opens and closes the circuit
// breakers of all queues by what every process has recorded. It returns those that have changed. One process at a time
// judges; the others only record.
func (s *Store) JudgeBreakers(ctx context.Context) (changes []BreakerChange, err error) {
	if err := s.recordSamples(ctx); err != nil {
		return nil, fmt.Errorf("record outcomes for circuit breakers: %w", err)
	}
	if len(*s.breakers.known.Load()) == 0 {
		return nil, nil
	}
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		mine, err := s.tryLock(ctx, tx, breakerLock)
		if err != nil || !mine {
			return err
		}
		changes, err = collect(ctx, tx, func(row pgx.CollectableRow) (c BreakerChange, err error) {
			err = row.Scan(&c.Queue, &c.State)
			return c, err //nolint:wrapcheck // wrapped below
		}, s.sql(judgeBreakersSQL))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, s.sql(forgetSamplesSQL))
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return nil, fmt.Errorf("judge circuit breakers: %w", err)
	}
	return changes, nil
}

// recordSamples writes what this process has counted, and learns which queues have breakers.
func (s *Store) recordSamples(ctx context.Context) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	samples := s.breakers.take()
	if len(samples) > 0 {
		var (
			names             []string
			succeeded, failed []int64
		)
		for name, sample := range samples {
			names = append(names, name)
			succeeded, failed = append(succeeded, sample.succeeded), append(failed, sample.failed)
		}
		if _, err := s.pool.Exec(ctx, s.sql(recordSamplesSQL), names, succeeded, failed); err != nil {
			return err
		}
	}
	names, err := collect(ctx, s.pool, pgx.RowTo[string], s.sql(breakerQueuesSQL))
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	s.breakers.known.Store(&known)
	return nil
}

// claimProbes claims for a queue whose breaker is half open as many messages as it still lets through. A queue that is
// paused, closed or unknown has none.
func (s *Store) claimProbes(ctx context.Context, queue string, calls []ClaimParams) ([][]message.Message, error) {
	wanted := 0
	for _, call := range calls {
		wanted += call.Max
	}
	taken, err := collect(ctx, s.pool, pgx.RowTo[int], s.sql(takeProbesSQL), queue, wanted)
	if err != nil || len(taken) == 0 {
		return make([][]message.Message, len(calls)), err
	}
	left := taken[0]
	allowed := make([]ClaimParams, 0, len(calls))
	for _, call := range calls {
		call.Max = min(call.Max, left)
		if left -= call.Max; call.Max > 0 {
			allowed = append(allowed, call)
		}
	}
	answers, err := s.claimThrough(ctx, queue, allowed, true)
	got := 0
	for _, answer := range answers {
		got += len(answer)
	}
	if got < taken[0] {
		// Should this fail, others are handed out after a while.
		_, _ = s.pool.Exec(ctx, s.sql(giveProbesSQL), queue, taken[0]-got)
	}
	return append(answers, make([][]message.Message, len(calls)-len(answers))...), err
}

const breakersSQL = `
SELECT name, breaker, breaker_changed_at, breaker_open_until FROM {schema}.queue WHERE breaker_window_ms > 0`

// Breakers returns the circuit breakers of all queues that have one.
func (s *Store) Breakers(ctx context.Context) (map[string]BreakerInfo, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	found := map[string]BreakerInfo{}
	_, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (struct{}, error) {
		var (
			name string
			info BreakerInfo
		)
		err := row.Scan(&name, &info.State, &info.ChangedAt, &info.OpenUntil)
		info.ChangedAt, info.OpenUntil = info.ChangedAt.UTC(), utc(info.OpenUntil)
		found[name] = info
		return struct{}{}, err //nolint:wrapcheck // wrapped below
	}, s.sql(breakersSQL))
	if err != nil {
		return nil, fmt.Errorf("read circuit breakers: %w", err)
	}
	return found, nil
}

// RetryAfter is how long a queue hands out nothing because its circuit breaker is open: 0 when it is closed, or there
// is none.
func (s *Store) RetryAfter(ctx context.Context, queue string) (time.Duration, error) {
	if !s.breakers.has(queue) {
		return 0, nil
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	waits, err := collect(ctx, s.pool, pgx.RowTo[time.Duration], s.sql(retryAfterSQL), queue)
	if err != nil || len(waits) == 0 {
		return 0, err
	}
	return waits[0], nil
}
