package coalesce_test

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/coalesce"
)

// errAny is an error of a flush.
var errAny = errors.New("no luck")

// flushed is a flush that waits for its outcome.
type flushed struct {
	ctx     context.Context //nolint:containedctx // looked at by tests
	key     string
	calls   []int
	outcome chan<- error
}

// bench is a Group of calls that return their double, with flushes that a test ends one by one.
type bench struct {
	*coalesce.Group[string, int, int]
	t       *testing.T
	flushes chan flushed
}

// answer is what a Do has returned.
type answer struct {
	Out int
	Err error
}

func newBench(t *testing.T, options coalesce.Options[int]) *bench {
	t.Helper()
	b := &bench{t: t, flushes: make(chan flushed, 100)}
	b.Group = coalesce.New(options, func(ctx context.Context, key string, calls []int) ([]int, error) {
		outcome := make(chan error)
		b.flushes <- flushed{ctx: ctx, key: key, calls: append([]int(nil), calls...), outcome: outcome}
		return double(calls), <-outcome
	})
	return b
}

func double(calls []int) []int {
	outs := make([]int, len(calls))
	for i, in := range calls {
		outs[i] = 2 * in
	}
	return outs
}

// do starts a Do and returns once it waits.
func (b *bench) do(ctx context.Context, key string, in int) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		out, err := b.Do(ctx, key, in)
		done <- answer{out, err}
	}()
	synctest.Wait()
	return done
}

// next returns the flush that is under way, and checks its calls.
func (b *bench) next(calls ...int) flushed {
	b.t.Helper()
	synctest.Wait()
	select {
	case f := <-b.flushes:
		if diff := cmp.Diff(calls, f.calls); diff != "" {
			b.t.Fatalf("flush of calls other than expected (-want +got):\n%s", diff)
		}
		return f
	default:
		b.t.Fatalf("no flush of %v under way", calls)
		return flushed{}
	}
}

// idle checks that no flush has begun.
func (b *bench) idle() {
	b.t.Helper()
	synctest.Wait()
	select {
	case f := <-b.flushes:
		b.t.Fatalf("flush of %v, want none", f.calls)
	default:
	}
}

// end ends a flush.
func (f flushed) end(err error) {
	f.outcome <- err
	synctest.Wait()
}

// expect checks that Dos have returned, in any order.
func expect(t *testing.T, want answer, dones ...<-chan answer) {
	t.Helper()
	synctest.Wait()
	for _, done := range dones {
		select {
		case got := <-done:
			if got.Out != want.Out || !errors.Is(got.Err, want.Err) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		default:
			t.Fatal("Do has not returned")
		}
	}
}

func expectWaiting(t *testing.T, done <-chan answer) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-done:
		t.Fatalf("Do has returned %+v, should be waiting", got)
	default:
	}
}

func TestACallThatComesAloneRunsInItsOwnGoroutine(t *testing.T) {
	t.Parallel()
	var stack string
	group := coalesce.New(coalesce.Options[int]{}, func(_ context.Context, _ string, calls []int) ([]int, error) {
		stack = string(debug.Stack())
		return double(calls), nil
	})
	if out, err := group.Do(t.Context(), "orders", 21); out != 42 || err != nil {
		t.Errorf("Do = %d, %v", out, err)
	}
	if !strings.Contains(stack, t.Name()) {
		t.Errorf("flush ran in another goroutine:\n%s", stack)
	}
}

func TestCallsGatherInOrderWhileAFlushIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{})
		one := b.do(t.Context(), "orders", 1)
		first := b.next(1)
		two, three, four := b.do(t.Context(), "orders", 2), b.do(t.Context(), "orders", 3), b.do(t.Context(), "orders", 4)
		b.idle()
		first.end(nil)
		expect(t, answer{Out: 2}, one)
		second := b.next(2, 3, 4)
		expectWaiting(t, two)
		second.end(nil)
		expect(t, answer{Out: 4}, two)
		expect(t, answer{Out: 6}, three)
		expect(t, answer{Out: 8}, four)
		if keys := b.Keys(); keys != 0 {
			t.Errorf("%d keys remembered with nothing to do", keys)
		}
	})
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{})
		one, two := b.do(t.Context(), "orders", 1), b.do(t.Context(), "mails", 2)
		orders, mails := b.next(1), b.next(2)
		if orders.key != "orders" || mails.key != "mails" {
			t.Errorf("flushes of %q and %q", orders.key, mails.key)
		}
		mails.end(nil)
		expect(t, answer{Out: 4}, two)
		if keys := b.Keys(); keys != 1 {
			t.Errorf("%d keys remembered, want that of the flush under way", keys)
		}
		orders.end(nil)
		expect(t, answer{Out: 2}, one)
	})
}

func TestInFlightBoundsTheFlushesOfAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{InFlight: 2, MaxWeight: 2})
		for in := range 6 {
			b.do(t.Context(), "orders", in)
		}
		first, second := b.next(0), b.next(1)
		b.idle()
		second.end(nil)
		third := b.next(2, 3)
		b.idle()
		first.end(nil)
		fourth := b.next(4, 5)
		third.end(nil)
		fourth.end(nil)
		b.idle()
	})
}

func TestMaxWeightBoundsAFlushButOneCallAlwaysGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{MaxWeight: 10, Weight: func(in int) int { return in }})
		for _, in := range []int{1, 4, 6, 1, 11, 0, 3, 7, -5, 5} {
			b.do(t.Context(), "orders", in)
		}
		b.next(1).end(nil)
		b.next(4, 6).end(nil)
		b.next(1).end(nil)
		b.next(11).end(nil)
		b.next(0, 3, 7, -5).end(nil)
		b.next(5).end(nil)
		b.idle()
	})
}

func TestALeaderReturnsWithItsOwnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{MaxWeight: 1})
		dones := make([]<-chan answer, 5)
		for in := range dones {
			dones[in] = b.do(t.Context(), "orders", in)
		}
		for in, done := range dones {
			expectWaiting(t, done)
			b.next(in).end(nil)
			expect(t, answer{Out: 2 * in}, done)
		}
	})
}
