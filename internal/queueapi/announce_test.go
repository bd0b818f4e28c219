package queueapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/store"
)

// told records what is announced.
type told struct {
	Maintainer

	at    time.Time
	names [][]string
	after []time.Duration
}

func (n *told) NotifyReady(_ context.Context, queues []string) error {
	slices.Sort(queues)
	n.names, n.after = append(n.names, queues), append(n.after, time.Since(n.at))
	return nil
}

func TestNotifyIsSentAtOnceAndThenCoalesced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		n := &told{at: time.Now()}
		m := &maintenance{
			backend: n, hub: newHub(middle, everyQueue), logger: slog.New(slog.DiscardHandler),
			jitter: func() float64 { return 0 }, pause: pause,
		}
		done := make(chan struct{})
		go func() { m.announce(ctx); close(done) }()
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's clock: nothing is sent while nothing is ready
		n.at = time.Now()
		for range 25 {
			m.hub.wakeAll("a", 1)
			m.hub.wakeAll("b", 1)
			time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock
		}
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's clock
		stop()
		<-done
		both := []string{"a", "b"}
		got := n.names
		if len(got) > 0 && len(got[0]) == 1 {
			got[0] = both // The first is sent between the two, or after both.
		}
		if diff := cmp.Diff([][]string{both, both, both, both}, got); diff != "" {
			t.Error(diff)
		}
		const every = announceInterval
		if diff := cmp.Diff([]time.Duration{0, every, 2 * every, 3 * every}, n.after); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNotifyOnlyOfWhatNobodyHereTakes(t *testing.T) {
	t.Parallel()
	h := newHub(middle, everyQueue)
	first, second := h.join("a"), h.join("a")
	h.wakeAll("a", 2)
	if len(h.remote.names) != 0 {
		t.Error("announced although two wait here for two messages")
	}
	h.take(first)
	h.leave(first, false)
	h.wakeAll("a", 1)
	if _, ok := h.remote.names["a"]; !ok {
		t.Error("not announced although all who wait here have a hint")
	}
	h.remote.take(t.Context())
	h.leave(second, false)
	if _, ok := h.remote.names["a"]; !ok {
		t.Error("not announced although the last waiter left with its hint")
	}
}

func TestNotifyIsBounded(t *testing.T) {
	t.Parallel()
	a := newAnnouncer()
	for i := range 2 * maxAnnounced {
		a.add(strconv.Itoa(i))
	}
	if got := len(a.take(t.Context())); got != maxAnnounced {
		t.Errorf("%d names are kept", got)
	}
	a.add("again")
	if diff := cmp.Diff([]string{"again"}, a.take(t.Context())); diff != "" {
		t.Error(diff)
	}
}

// flaky is a store that hears something on every third try only.
type flaky struct {
	Maintainer

	tries int
}

func (f *flaky) ListenReady(_ context.Context, wake func([]string)) error {
	if f.tries++; f.tries%3 == 0 {
		wake(nil)
		wake([]string{"a"})
	}
	return errors.New("the connection broke")
}

func TestNotifyListenerBacksOffUntilItListens(t *testing.T) {
	t.Parallel()
	s := &script{answers: make([]func() (bool, error), 7)}
	logs := new(strings.Builder)
	h := newHub(middle, everyQueue)
	w := h.join("a")
	m := &maintenance{
		backend: &flaky{}, hub: h, logger: slog.New(slog.NewTextHandler(logs, nil)),
		jitter: func() float64 { return 0 },
		pause: func(ctx context.Context, d time.Duration) bool {
			goOn := s.pause(ctx, d)
			s.answers = s.answers[:max(len(s.answers)-1, 0)]
			return goOn
		},
	}
	m.listen(t.Context())
	half := lowestBackoff
	if diff := cmp.Diff([]time.Duration{0, half, 2 * half, half, 2 * half, 4 * half, half}, s.waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	failed, recovered := strings.Count(logs.String(), "listening for ready queues failed"),
		strings.Count(logs.String(), "listening for ready queues recovered")
	if failed != 3 || recovered != 2 {
		t.Errorf("failures are logged %d times, recoveries %d times", failed, recovered)
	}
	if !hinted(w) || len(h.remote.names) != 0 {
		t.Error("the waiter was not woken, or what others told is told to others")
	}
	h.leave(w, false)
}

// deaf is a store that can never hear anything.
type deaf struct{ Maintainer }

func (deaf) ListenReady(context.Context, func([]string)) error {
	return fmt.Errorf("through a pooler: %w", store.ErrNotListening)
}

func TestNotifyListenerGivesUpWhereNobodyCanListen(t *testing.T) {
	t.Parallel()
	logs := new(strings.Builder)
	waits := 0
	m := &maintenance{
		backend: deaf{}, hub: newHub(middle, everyQueue), logger: slog.New(slog.NewTextHandler(logs, nil)),
		pause: func(context.Context, time.Duration) bool { waits++; return waits < 5 },
	}
	m.listen(t.Context())
	if waits != 1 || strings.Count(logs.String(), "\n") != 1 || !strings.Contains(logs.String(), "pooler") {
		t.Errorf("%d tries, and the log says %s", waits, logs)
	}
}
