package queueapi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

const (
	// announceInterval spaces announcements, so that load adds few statements however many messages it brings.
	announceInterval = 10 * time.Millisecond
	// maxAnnounced bounds the names of one announcement. What is beyond is left to the backstop.
	maxAnnounced = 1000
)

// Notifier carries wake-ups between the processes of one schema. It may lose them.
type Notifier interface {
	// NotifyReady tells other processes that queues may have something to claim.
	NotifyReady(ctx context.Context, queues []string) error
	// ListenReady calls wake with what other processes tell, until ctx ends or it breaks; it returns why. The first
	// call has no names: it listens from now on. An error that matches store.ErrNotListening is for good.
	ListenReady(ctx context.Context, wake func(queues []string)) error
}

// announcer collects the names of queues until they are announced.
type announcer struct {
	// some has an element while there are names.
	some chan struct{}

	mu    sync.Mutex
	names map[string]struct{}
}

func newAnnouncer() *announcer {
	return &announcer{some: make(chan struct{}, 1), names: map[string]struct{}{}}
}

// add never waits, not even for an announcement under way.
func (a *announcer) add(queue string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.names) >= maxAnnounced {
		return
	}
	a.names[queue] = struct{}{}
	select {
	case a.some <- struct{}{}:
	default:
	}
}

// take waits for names and removes them; it returns none when ctx ends.
func (a *announcer) take(ctx context.Context) []string {
	select {
	case <-a.some:
	case <-ctx.Done():
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	names := slices.Collect(maps.Keys(a.names))
	clear(a.names)
	return names
}

// announce tells other processes what became ready here: at once after a time of quiet, and else at the interval. What
// could not be told is left to their backstops.
func (m *maintenance) announce(ctx context.Context) {
	m.runLoop(ctx, loop{"announce ready queues", announceInterval, func(ctx context.Context) (bool, error) {
		names := m.hub.remote.take(ctx)
		if len(names) == 0 {
			return false, nil
		}
		return false, m.backend.NotifyReady(ctx, names)
	}})
}

// listen wakes the waiters of queues that became ready in other processes. It connects again, ever more slowly, when it
// fails; the backstop works all the while. Like the loops it logs the first failure of a series and the recovery.
func (m *maintenance) listen(ctx context.Context) {
	failures, backoff := 0, lowestBackoff
	wake := func(queues []string) {
		if failures > 0 {
			m.logger.InfoContext(ctx, "listening for ready queues recovered", "failures", failures)
			failures, backoff = 0, lowestBackoff
		}
		for _, queue := range queues {
			m.hub.wake(queue, 1)
		}
	}
	for wait := time.Duration(0); m.pause(ctx, wait); {
		err := m.backend.ListenReady(ctx, wake)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrNotListening) {
			m.logger.InfoContext(ctx, "long polls find what other processes send by asking twice a second", "cause", err)
			return
		}
		if failures++; failures == 1 {
			m.logger.WarnContext(ctx, "listening for ready queues failed, trying again", "error", err)
		}
		wait, backoff = m.spread(backoff), min(2*backoff, highestBackoff)
	}
}
