package queueapi

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

const (
	sweepInterval     = 250 * time.Millisecond
	sweepSlice        = 500
	retentionInterval = 10 * time.Second
	retentionSlice    = 1000
	rotationInterval  = 10 * time.Second
	foldInterval      = time.Second
	foldSlice         = 5000
	judgeInterval     = time.Second
	// expiryInterval may be long: a message that has expired is not handed out, dead letter or not.
	expiryInterval = time.Second
	// lowestBackoff and highestBackoff space the tries of a loop while the database is away.
	lowestBackoff  = 500 * time.Millisecond
	highestBackoff = 15 * time.Second
)

// loop is one kind of maintenance. Every API process runs all of them; the store lets them work side by side.
type loop struct {
	name     string
	interval time.Duration
	// work does one bounded slice and reports whether there is more to do at once.
	work func(ctx context.Context) (more bool, err error)
}

// maintenance runs the loops that keep queues moving and bounded: leases and messages expire, finished ones are
// removed, depth counters are folded, and processes wake each other's long polls.
type maintenance struct {
	backend Maintainer
	hub     *hub
	logger  *slog.Logger
	metrics *metrics
	jitter  func() float64
	// pause waits for d or the end of ctx; it reports whether to go on. Tests replace it.
	pause func(ctx context.Context, d time.Duration) bool
}

// run runs all loops until ctx ends.
func (m *maintenance) run(ctx context.Context) {
	var group sync.WaitGroup
	for _, l := range m.loops() {
		group.Go(func() { m.runLoop(ctx, l) })
	}
	group.Go(func() { m.announce(ctx) })
	group.Go(func() { m.listen(ctx) })
	group.Wait()
}

func (m *maintenance) loops() []loop {
	return []loop{
		{"expire leases", sweepInterval, func(ctx context.Context) (bool, error) {
			expired, err := m.backend.ExpireLeases(ctx, sweepSlice)
			m.metrics.loops.WithLabelValues("lease_expired").Add(float64(expired))
			return expired == sweepSlice, err
		}},
		{"expire messages", expiryInterval, func(ctx context.Context) (bool, error) {
			expired, err := m.backend.ExpireMessages(ctx, sweepSlice)
			m.metrics.loops.WithLabelValues("message_expired").Add(float64(expired))
			return expired >= sweepSlice, err
		}},
		{"enforce retention", retentionInterval, func(ctx context.Context) (bool, error) {
			removed, err := m.backend.EnforceRetention(ctx, retentionSlice)
			m.metrics.loops.WithLabelValues("succeeded_removed").Add(float64(removed.Succeeded))
			m.metrics.loops.WithLabelValues("dead_removed").Add(float64(removed.Dead))
			return max(removed.Succeeded, removed.Dead) == retentionSlice, err
		}},
		{"rotate log", rotationInterval, func(ctx context.Context) (bool, error) {
			rotated, err := m.backend.RotateLog(ctx, store.DefaultRotation())
			m.metrics.loops.WithLabelValues("succeeded_removed").Add(float64(rotated.Removed))
			return rotated.Opened, err
		}},
		{"fold depth", foldInterval, func(ctx context.Context) (bool, error) {
			return false, m.backend.FoldDepth(ctx)
		}},
		{"fold replay outcomes", foldInterval, func(ctx context.Context) (bool, error) {
			folded, err := m.backend.FoldOutcomes(ctx, foldSlice)
			return folded == foldSlice, err
		}},
		{"judge circuit breakers", judgeInterval, func(ctx context.Context) (bool, error) {
			changes, err := m.backend.JudgeBreakers(ctx)
			for _, change := range changes {
				m.metrics.breakers.WithLabelValues(string(change.State)).Inc()
				m.logger.WarnContext(ctx, "circuit breaker changed", "queue", change.Queue, "state", change.State)
			}
			return false, err
		}},
	}
}

// runLoop works at the loop's interval, at once again while there is more, and ever more slowly while it fails. It logs
// the first failure of a series and the recovery.
func (m *maintenance) runLoop(ctx context.Context, l loop) {
	failures, backoff := 0, lowestBackoff
	for wait := m.spread(l.interval); m.pause(ctx, wait); {
		more, err := l.work(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if failures++; failures == 1 {
				m.logger.WarnContext(ctx, "background work failed, trying again", "work", l.name, "error", err)
			}
			wait, backoff = m.spread(backoff), min(2*backoff, highestBackoff)
			continue
		case failures > 0:
			m.logger.InfoContext(ctx, "background work recovered", "work", l.name, "failures", failures)
			failures, backoff = 0, lowestBackoff
		}
		wait = m.spread(l.interval)
		if more {
			wait = 0
		}
	}
}

// spread lengthens a wait by up to its double, so that processes do not work in step.
func (m *maintenance) spread(d time.Duration) time.Duration {
	return d + time.Duration(m.jitter()*float64(d))
}

func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
