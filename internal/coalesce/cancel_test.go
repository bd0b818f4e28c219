package coalesce_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"deadletter.dev/deadletter/internal/coalesce"
)

func TestACallWhoseContextHasEndedIsNotMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		expect(t, answer{Err: context.Canceled}, b.do(ctx, "orders", 1))
		b.idle()
	})
}

func TestAWaitingCallIsWithdrawnWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	for name, position := range map[string]int{"the next to lead": 1, "between others": 2, "the last": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, coalesce.Options[int]{})
				ctx, cancel := context.WithCancel(t.Context())
				var withdrawn <-chan answer
				var kept []int
				for in := range 4 {
					if in == position {
						withdrawn = b.do(ctx, "orders", in)
						continue
					}
					b.do(t.Context(), "orders", in)
					if in > 0 {
						kept = append(kept, in)
					}
				}
				cancel()
				expect(t, answer{Err: context.Canceled}, withdrawn)
				b.next(0).end(nil)
				b.next(kept...).end(nil)
				b.idle()
				if b.Keys() != 0 {
					t.Error("a key is remembered")
				}
			})
		})
	}
}

func TestTheLastToWaitIsWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{})
		b.do(t.Context(), "orders", 0)
		ctx, cancel := context.WithCancel(t.Context())
		only := b.do(ctx, "orders", 1)
		cancel()
		expect(t, answer{Err: context.Canceled}, only)
		b.next(0).end(nil)
		b.idle()
		if b.Keys() != 0 {
			t.Error("a key is remembered")
		}
	})
}

// lateEnd is a context that has ended after so many looks at Err, before Done tells.
type lateEnd struct {
	context.Context //nolint:containedctx // a context itself
	looks           atomic.Int32
}

func (l *lateEnd) Err() error {
	if l.looks.Add(-1) >= 0 {
		return nil
	}
	return context.Canceled
}

// A call's context may end a moment before it is taken, with its caller not yet awake to withdraw it.
func TestACallWhoseContextHasJustEndedIsNotTaken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		looks int32
		in    int
		then  []int
	}{
		"as it is to be woken to lead":    {looks: 1, in: 1, then: []int{2, 3}},
		"after it has been woken to lead": {looks: 2, in: 1, then: []int{2, 3}},
		"as a flush is filled":            {looks: 1, in: 2, then: []int{1, 3}},
		"as the last":                     {looks: 1, in: 3, then: []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				late := &lateEnd{Context: ctx}
				late.looks.Store(tc.looks)
				b := newBench(t, coalesce.Options[int]{})
				b.do(t.Context(), "orders", 0)
				var withdrawn <-chan answer
				for in := 1; in <= 3; in++ {
					if in == tc.in {
						withdrawn = b.do(late, "orders", in)
						continue
					}
					b.do(t.Context(), "orders", in)
				}
				b.next(0).end(nil)
				b.next(tc.then...).end(nil)
				b.idle()
				cancel()
				expect(t, answer{Err: context.Canceled}, withdrawn)
				if b.Keys() != 0 {
					t.Error("a key is remembered")
				}
			})
		})
	}
}

func TestACallThatIsTakenRunsThoughItsCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		b := newBench(t, coalesce.Options[int]{})
		b.do(t.Context(), "orders", 0)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "a caller's own"))
		leader, follower, other := b.do(ctx, "orders", 1), b.do(ctx, "orders", 2), b.do(t.Context(), "orders", 3)
		b.next(0).end(nil)
		flush := b.next(1, 2, 3)
		cancel()
		expect(t, answer{Err: context.Canceled}, follower)
		expectWaiting(t, leader)
		if err := flush.ctx.Err(); err != nil {
			t.Errorf("the context of the flush ended with a caller's: %v", err)
		}
		if value := flush.ctx.Value(valueKey{}); value != nil {
			t.Errorf("the context of the flush has a caller's value %v", value)
		}
		flush.end(nil)
		expect(t, answer{Out: 2}, leader)
		expect(t, answer{Out: 6}, other)
		if b.Keys() != 0 {
			t.Error("a key is remembered")
		}
	})
}
