package queueapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// script answers the calls of one loop, and records the waits between them. It ends the loop when it is used up.
type script struct {
	answers []func() (bool, error)
	waits   []time.Duration
}

func (s *script) pause(_ context.Context, d time.Duration) bool {
	if len(s.answers) == 0 {
		return false
	}
	s.waits = append(s.waits, d)
	return true
}

func (s *script) work(context.Context) (bool, error) {
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next()
}

func TestLoopHurriesWhenThereIsMoreAndBacksOffWhileItFails(t *testing.T) {
	t.Parallel()
	idle := func() (bool, error) { return false, nil }
	more := func() (bool, error) { return true, nil }
	fails := func() (bool, error) { return false, errors.New("database is away") }
	s := &script{answers: []func() (bool, error){
		idle, more, more, idle, fails, fails, fails, fails, fails, fails, fails, idle, fails, idle,
	}}
	logs := new(strings.Builder)
	m := &maintenance{
		logger: slog.New(slog.NewTextHandler(logs, nil)), jitter: func() float64 { return 0 }, pause: s.pause,
	}
	m.runLoop(t.Context(), loop{name: "test", interval: time.Minute, work: s.work})
	half := 500 * time.Millisecond
	want := []time.Duration{
		time.Minute, time.Minute, 0, 0, time.Minute,
		half, 2 * half, 4 * half, 8 * half, 16 * half, 15 * time.Second, 15 * time.Second, time.Minute, half,
	}
	if diff := cmp.Diff(want, s.waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	failed, recovered := strings.Count(logs.String(), "failed"), strings.Count(logs.String(), "recovered")
	if failed != 2 || recovered != 2 {
		t.Errorf("two series of failures are logged %d times, recoveries %d times", failed, recovered)
	}
}

func TestLoopEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := &maintenance{logger: slog.New(slog.DiscardHandler), jitter: func() float64 { return 0 }, pause: pause}
	m.runLoop(ctx, loop{name: "test", work: func(context.Context) (bool, error) {
		cancel()
		return true, errors.New("cancelled")
	}})
	if pause(ctx, time.Hour) || pause(ctx, 0) {
		t.Error("a pause outlives its context")
	}
}

// fullSlices is a store that always has one more full slice to do.
type fullSlices struct{ Maintainer }

func (fullSlices) ExpireLeases(_ context.Context, limit int) (int, error) { return limit, nil }

// ExpireMessages does somewhat more than it is asked to, which it may.
func (fullSlices) ExpireMessages(_ context.Context, limit int) (int, error) { return limit + 1, nil }

func (fullSlices) EnforceRetention(_ context.Context, limit int) (store.RetentionResult, error) {
	return store.RetentionResult{Dead: limit}, nil
}

func (fullSlices) RotateLog(context.Context, store.Rotation) (store.RotationResult, error) {
	return store.RotationResult{Opened: true}, nil
}

func (fullSlices) FoldDepth(context.Context) error { return nil }

func (fullSlices) FoldOutcomes(_ context.Context, limit int) (int, error) { return limit, nil }

func (fullSlices) JudgeBreakers(context.Context) ([]store.BreakerChange, error) {
	return []store.BreakerChange{{Queue: "orders", State: message.BreakerOpen}}, nil
}

func TestLoopsAskForMoreAfterAFullSlice(t *testing.T) {
	t.Parallel()
	m := &maintenance{
		backend: fullSlices{},
		metrics: newMetrics(prometheus.NewRegistry(), nil, newHub(func() float64 { return 0 }, nil), "test"),
		logger:  slog.New(slog.DiscardHandler),
	}
	got := map[string]bool{}
	for _, l := range m.loops() {
		more, err := l.work(t.Context())
		if err != nil {
			t.Error(err)
		}
		got[l.name] = more
	}
	want := map[string]bool{
		"expire leases": true, "expire messages": true, "enforce retention": true, "rotate log": true, "fold depth": false,
		"fold replay outcomes": true, "judge circuit breakers": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
