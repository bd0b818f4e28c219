package queueapi

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func middle() float64 { return 0.5 }

func hinted(w *waiter) bool {
	select {
	case <-w.signal:
		return true
	default:
		return false
	}
}

func TestHintsGoToWaitersInTurn(t *testing.T) {
	t.Parallel()
	h := newHub(middle, everyQueue)
	first, second, other := h.join("a"), h.join("a"), h.join("b")
	h.wake("a", 1)
	h.wake("a", 1)
	h.wake("a", 1)
	if !hinted(first) || !hinted(second) || hinted(other) {
		t.Error("three hints for one queue did not reach its two waiters")
	}
	h.take(first)
	h.wake("a", 5)
	if !hinted(first) || hinted(second) {
		t.Error("a hint did not go to the waiter that had acted on its own")
	}
	h.wake("nobody", 1)
	for _, w := range []*waiter{first, second, other} {
		h.leave(w, false)
	}
	if h.count() != 0 || len(h.queues) != 0 {
		t.Error("the hub does not forget")
	}
}

func TestHintsAreNotLost(t *testing.T) {
	t.Parallel()
	h := newHub(middle, everyQueue)
	first, second, third := h.join("a"), h.join("a"), h.join("a")
	h.wake("a", 1)
	h.leave(first, false)
	if !hinted(second) {
		t.Error("a waiter left with a hint that it had not acted on")
	}
	h.take(second)
	h.leave(second, true)
	if !hinted(third) {
		t.Error("a waiter that found as much as it asked for did not hint at the rest")
	}
	h.take(third)
	h.leave(third, false)
}

// everyQueue is a database in which every queue has something ready, for ever.
func everyQueue(_ context.Context, queues []string) ([]string, error) { return queues, nil }

func TestBackstopAsksOnceForAllQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked [][]string
		h := newHub(middle, func(_ context.Context, queues []string) ([]string, error) {
			slices.Sort(queues)
			if asked = append(asked, queues); len(asked) == 1 {
				return nil, errors.New("the database is away")
			}
			return []string{"b"}, nil
		})
		a, b := h.join("a"), h.join("b")
		time.Sleep(2*backstop + time.Millisecond) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if hinted(a) || !hinted(b) {
			t.Error("the waiter of the ready queue was not woken, or another was")
		}
		if diff := cmp.Diff([][]string{{"a", "b"}, {"a", "b"}}, asked); diff != "" {
			t.Error(diff)
		}
		h.leave(a, false)
		h.leave(b, false)
		time.Sleep(time.Hour) //nolint:forbidigo // nobody waits, nobody asks
		if len(asked) != 2 {
			t.Errorf("asked %d times", len(asked))
		}
	})
}

func TestBackstopWakesOneWaiterPerQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(middle, everyQueue)
		first, second, other := h.join("a"), h.join("a"), h.join("b")
		time.Sleep(backstop + time.Millisecond) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if !hinted(first) || hinted(second) || !hinted(other) {
			t.Error("the backstop did not wake one waiter per queue")
		}
		h.take(first)
		h.leave(first, false)
		time.Sleep(backstop) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if !hinted(second) {
			t.Error("the backstop does not go on")
		}
		h.leave(second, false)
		h.leave(other, false)
		time.Sleep(time.Hour) //nolint:forbidigo // no timer is left to run in the bubble
	})
}

func TestWakeAfterADelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(middle, everyQueue)
		w := h.join("a")
		h.wakeAfter("a", 100*time.Millisecond)
		h.wakeAfter("a", time.Hour)
		h.wakeAfter("nobody", time.Millisecond)
		time.Sleep(101 * time.Millisecond) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if !hinted(w) {
			t.Error("the delayed hint did not come")
		}
		h.leave(w, false)
	})
}

func TestCloseIsIdempotent(t *testing.T) {
	t.Parallel()
	h := newHub(middle, everyQueue)
	h.close()
	h.close()
	select {
	case <-h.closed:
	default:
		t.Error("close did not close")
	}
}
