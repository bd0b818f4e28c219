package client

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
)

// TestBreakerOpensAndCloses: while what the handler depends on is down, messages wait and lose no retries; when it is
// back, a few are tried, and then all go on.
func TestBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const messages = 30
	var batch []NewMessage
	for range messages {
		batch = append(batch, NewMessage{Payload: []byte("x"), MaxRetries: 10})
	}
	if _, err := b.EnqueueBatch(t.Context(), b.queue, batch); err != nil {
		t.Fatal(err)
	}
	var isUp atomic.Bool
	var calls atomic.Int64
	w := b.start(Worker{
		Concurrency: 2, Prefetch: 4,
		Breaker: &Breaker{FailurePercent: 50, MinSample: 4, OpenFor: 200 * time.Millisecond, Probes: 2},
		Handler: func(context.Context, *Message) error {
			calls.Add(1)
			if isUp.Load() {
				return nil
			}
			return RetryAfter(errors.New("connection refused"), time.Millisecond)
		},
	})
	opened := func() int { return strings.Count(w.notes.String(), "to=open") }
	// It opens, tries after a while, and opens again.
	eventually(t, "the breaker to open for the third time", func() bool { return opened() >= 3 })
	// The first four, what was running beside them, and the probes: everything else still waits.
	if made := calls.Load(); made > 4+2+3*2 {
		t.Errorf("%d calls were made", made)
	}
	isUp.Store(true)
	eventually(t, "all to succeed", func() bool { return b.depth().Succeeded == messages })
	if !strings.Contains(w.notes.String(), "to=closed") {
		t.Error("the breaker did not close")
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

func TestWorkerEndsWhileItsBreakerIsOpen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.put(text("x")).ID
	w := b.start(Worker{
		Concurrency: 1, Breaker: &Breaker{MinSample: 1, OpenFor: time.Hour},
		Handler: func(context.Context, *Message) error { return RetryAfter(errors.New("down"), 0) },
	})
	eventually(t, "the breaker to open", func() bool { return strings.Contains(w.notes.String(), "to=open") })
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if m := b.get(id); m.RetryCount != 1 || m.Status != Pending {
		t.Errorf("the message is %+v", m)
	}
}

func TestWhatCountsForABreaker(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, c := range map[string]struct {
		breaker  Breaker
		outcomes []error
		want     gobreaker.State
	}{
		"half of them":            {Breaker{MinSample: 4}, []error{nil, nil, down, down}, gobreaker.StateOpen},
		"less than half":          {Breaker{MinSample: 4}, []error{nil, nil, nil, down}, gobreaker.StateClosed},
		"too few":                 {Breaker{MinSample: 4}, []error{down, down, down}, gobreaker.StateClosed},
		"a percentage":            {Breaker{MinSample: 4, FailurePercent: 25}, []error{nil, nil, nil, down}, gobreaker.StateOpen},
		"the message's fault":     {Breaker{MinSample: 2}, []error{Permanent(down), WithCategory(down, Validation), errNoVerdict}, gobreaker.StateClosed},
		"own rule, left out":      {Breaker{MinSample: 1, Counts: func(error) bool { return false }}, []error{down, down}, gobreaker.StateClosed},
		"own rule, all count":     {Breaker{MinSample: 1, Counts: func(error) bool { return true }}, []error{Permanent(down)}, gobreaker.StateOpen},
		"faults are no successes": {Breaker{MinSample: 2}, []error{Permanent(down), Permanent(down), Permanent(down), down, down}, gobreaker.StateOpen},
	} {
		g, err := newGate(t.Context(), &c.breaker, discard)
		if err != nil {
			t.Fatal(err)
		}
		for _, outcome := range c.outcomes {
			judge, admitted := g.enter()
			if !admitted {
				t.Fatalf("%s: the breaker is open too early", name)
			}
			judge(outcome)
		}
		if state := g.breaker.State(); state != c.want {
			t.Errorf("%s: the breaker is %s", name, state)
		}
	}
}

var discard = slog.New(slog.DiscardHandler)
