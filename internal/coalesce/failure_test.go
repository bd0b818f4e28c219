package coalesce_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"deadletter.dev/deadletter/internal/coalesce"
)

func TestAFlushsErrorGoesToAllItsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{})
		one := b.do(t.Context(), "orders", 1)
		two, three := b.do(t.Context(), "orders", 2), b.do(t.Context(), "orders", 3)
		b.next(1).end(nil)
		expect(t, answer{Out: 2}, one)
		flush := b.next(2, 3)
		four := b.do(t.Context(), "orders", 4)
		flush.end(errAny)
		expect(t, answer{Err: errAny}, two, three)
		b.next(4).end(nil)
		expect(t, answer{Out: 8}, four)
	})
}

// hurt runs three calls of which the last two go together, in a flush that does harm, and then one more.
func hurt(t *testing.T, harm func(calls []int) ([]int, error)) (together [2]<-chan answer) {
	t.Helper()
	entered, release := make(chan struct{}), make(chan struct{})
	group := coalesce.New(coalesce.Options[int]{}, func(_ context.Context, _ string, calls []int) ([]int, error) {
		switch {
		case len(calls) > 1:
			return harm(calls)
		case calls[0] == 0:
			close(entered)
			<-release
		}
		return double(calls), nil
	})
	b := &bench{Group: group, t: t}
	go b.Do(t.Context(), "orders", 0) //nolint:errcheck // in the way of the others
	<-entered
	for i := range together {
		together[i] = b.do(t.Context(), "orders", i+1)
	}
	close(release)
	synctest.Wait()
	expect(t, answer{Out: 6}, b.do(t.Context(), "orders", 3))
	if group.Keys() != 0 {
		t.Error("a key is remembered")
	}
	return together
}

func TestAPanicIsTheErrorOfAllCallsOfTheFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, done := range hurt(t, func([]int) ([]int, error) { panic(errAny) }) {
			got := <-done
			caught, ok := errors.AsType[*coalesce.PanicError](got.Err)
			if !ok || !errors.Is(got.Err, errAny) || got.Err.Error() != "panic: no luck" {
				t.Fatalf("got %v, want the panic", got.Err)
			}
			if !strings.Contains(string(caught.Stack), "TestAPanicIsTheErrorOfAllCallsOfTheFlush") {
				t.Errorf("the stack does not show where it was:\n%s", caught.Stack)
			}
		}
	})
}

func TestAPanicThatIsNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, done := range hurt(t, func([]int) ([]int, error) { panic("oh") }) {
			if got := <-done; got.Err == nil || got.Err.Error() != "panic: oh" || errors.Unwrap(got.Err) != nil {
				t.Errorf("got %v", got.Err)
			}
		}
	})
}

func TestAFlushThatEndsItsGoroutineLosesNoOtherCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dones := hurt(t, func([]int) ([]int, error) {
			runtime.Goexit()
			return nil, nil
		})
		expectWaiting(t, dones[0]) // Its goroutine is gone.
		if got := <-dones[1]; got.Err == nil {
			t.Errorf("got %+v, want an error", got)
		}
	})
}

func TestTooFewOrTooManyAnswersAreAnError(t *testing.T) {
	t.Parallel()
	for name, outs := range map[string][]int{"none": nil, "too few": {1}, "too many": {1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, done := range hurt(t, func([]int) ([]int, error) { return outs, nil }) {
					got := <-done
					count, ok := errors.AsType[*coalesce.CountError](got.Err)
					if !ok || count.Calls != 2 || count.Answers != len(outs) ||
						!strings.HasSuffix(count.Error(), "answers to 2 calls") {
						t.Errorf("got %+v", got)
					}
				}
			})
		})
	}
}

func TestRetryRunsEachCallAgainAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{Retry: func(err error) bool { return errors.Is(err, errAny) }})
		b.do(t.Context(), "orders", 0)
		two, bad, four := b.do(t.Context(), "orders", 2), b.do(t.Context(), "orders", 3), b.do(t.Context(), "orders", 4)
		b.next(0).end(nil)
		flush := b.next(2, 3, 4)
		five := b.do(t.Context(), "orders", 5)
		flush.end(errAny)
		expectWaiting(t, bad)
		b.next(2).end(nil)
		expect(t, answer{Out: 4}, two) // The leader does not wait for the others.
		b.next(3).end(errAny)
		expect(t, answer{Err: errAny}, bad)
		b.next(4).end(nil)
		expect(t, answer{Out: 8}, four)
		b.next(5).end(nil)
		expect(t, answer{Out: 10}, five)
		b.idle()
		if b.Keys() != 0 {
			t.Error("a key is remembered")
		}
	})
}

func TestRetryIsAskedOnlyForSeveralCallsAndOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []error
		refused := errors.New("no use")
		b := newBench(t, coalesce.Options[int]{Retry: func(err error) bool {
			asked = append(asked, err)
			return !errors.Is(err, refused)
		}})
		b.do(t.Context(), "orders", 0)
		one, two := b.do(t.Context(), "orders", 1), b.do(t.Context(), "orders", 2)
		b.next(0).end(errAny)
		b.next(1, 2).end(refused)
		b.idle()
		expect(t, answer{Err: refused}, one, two)
		if !slices.Equal(asked, []error{refused}) {
			t.Errorf("asked for %v", asked)
		}
	})
}

func TestAPanicIsRetriedWhereRetrySaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		group := coalesce.New(coalesce.Options[int]{Retry: func(err error) bool {
			_, ok := errors.AsType[*coalesce.PanicError](err)
			return ok
		}}, func(_ context.Context, _ string, calls []int) ([]int, error) {
			if calls[0] == 0 {
				<-release
			}
			if slices.Contains(calls, 2) {
				panic("poison")
			}
			return double(calls), nil
		})
		b := &bench{Group: group, t: t}
		b.do(t.Context(), "orders", 0)
		one, two, three := b.do(t.Context(), "orders", 1), b.do(t.Context(), "orders", 2), b.do(t.Context(), "orders", 3)
		close(release)
		expect(t, answer{Out: 2}, one)
		expect(t, answer{Out: 6}, three)
		if got := <-two; got.Err == nil || got.Err.Error() != "panic: poison" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestARetriedCallThatEndsItsGoroutineLosesNoOtherCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		group := coalesce.New(coalesce.Options[int]{Retry: func(error) bool { return true }},
			func(_ context.Context, _ string, calls []int) ([]int, error) {
				switch {
				case calls[0] == 0:
					<-release
				case len(calls) > 1:
					return nil, errAny
				case calls[0] == 2:
					runtime.Goexit()
				}
				return double(calls), nil
			})
		b := &bench{Group: group, t: t}
		b.do(t.Context(), "orders", 0)
		one, two, three := b.do(t.Context(), "orders", 1), b.do(t.Context(), "orders", 2), b.do(t.Context(), "orders", 3)
		close(release)
		expect(t, answer{Out: 2}, one)
		for _, done := range []<-chan answer{two, three} {
			if got := <-done; got.Err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		}
		expect(t, answer{Out: 8}, b.do(t.Context(), "orders", 4))
	})
}

func TestACountErrorIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flushes := 0
		release := make(chan struct{})
		group := coalesce.New(coalesce.Options[int]{Retry: func(error) bool { return true }},
			func(_ context.Context, _ string, calls []int) ([]int, error) {
				flushes++
				if calls[0] == 0 {
					<-release
					return calls, nil
				}
				return nil, nil
			})
		b := &bench{Group: group, t: t}
		b.do(t.Context(), "orders", 0)
		one, two := b.do(t.Context(), "orders", 1), b.do(t.Context(), "orders", 2)
		close(release)
		for _, done := range []<-chan answer{one, two} {
			got := <-done
			if _, ok := errors.AsType[*coalesce.CountError](got.Err); !ok {
				t.Errorf("got %+v", got)
			}
		}
		if flushes != 2 {
			t.Errorf("%d flushes, want 2", flushes)
		}
	})
}

// A Retry that panics does so in its caller's own goroutine; the others are told.
func TestARetryThatPanicsLosesNoOtherCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, coalesce.Options[int]{Retry: func(error) bool { panic("oh") }})
		b.do(t.Context(), "orders", 0)
		var recovered any
		go func() {
			defer func() { recovered = recover() }()
			b.Do(t.Context(), "orders", 1) //nolint:errcheck // it panics
		}()
		synctest.Wait()
		two := b.do(t.Context(), "orders", 2)
		b.next(0).end(nil)
		b.next(1, 2).end(errAny)
		if got := <-two; got.Err == nil {
			t.Errorf("got %+v, want an error", got)
		}
		synctest.Wait()
		if recovered != "oh" {
			t.Errorf("recovered %v", recovered)
		}
		if b.Keys() != 0 {
			t.Error("a key is remembered")
		}
	})
}
