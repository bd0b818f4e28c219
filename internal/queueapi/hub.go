package queueapi

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// backstop is how often the queues that somebody waits for are looked at without a wake-up, all of them at once: it
	// bounds the wait for messages that become ready by themselves, or through another process that was not heard.
	backstop = 400 * time.Millisecond
	// lookTimeout bounds one look.
	lookTimeout = 5 * time.Second
)

// hub wakes long polls. Changes that this process makes wake the waiters of the queue at once, and those of other
// processes through the announcer when there are too few here. Everything else is found by the backstop, which asks
// which of the queues have something ready, in one statement however many there are, and wakes one waiter of each of
// those. So a waiter of an idle queue costs next to nothing.
//
// A wake-up is a hint that there may be one more message. It is never lost: a waiter that leaves without having acted
// on its hint passes it on, and one that found as much as it asked for hints at the rest.
type hub struct {
	jitter func() float64
	// ready returns those of the queues that have something to claim.
	ready  func(ctx context.Context, queues []string) ([]string, error)
	closed chan struct{}
	// remote takes what other processes should know.
	remote *announcer

	mu      sync.Mutex
	isShut  bool
	waiting int
	// looking is set from the first waiter on until a look finds none.
	looking bool
	queues  map[string]*waitList
}

// waitList is the waiters of one queue, first come first.
type waitList struct{ waiters *list.List }

// waiter is one long poll.
type waiter struct {
	// signal has room for one hint.
	signal  chan struct{}
	queue   string
	element *list.Element
	// hinted is set from hint to take; guarded by hub.mu.
	hinted bool
}

func newHub(jitter func() float64, ready func(context.Context, []string) ([]string, error)) *hub {
	return &hub{
		jitter: jitter, ready: ready, closed: make(chan struct{}), remote: newAnnouncer(),
		queues: map[string]*waitList{},
	}
}

// join adds a waiter. It must be called before the claim whose emptiness is waited out, so that no message slips
// between.
func (h *hub) join(queue string) *waiter {
	w := &waiter{signal: make(chan struct{}, 1), queue: queue}
	h.mu.Lock()
	defer h.mu.Unlock()
	waiting := h.queues[queue]
	if waiting == nil {
		waiting = &waitList{waiters: list.New()}
		h.queues[queue] = waiting
	}
	if !h.looking {
		h.looking = true
		time.AfterFunc(h.period(), h.look)
	}
	w.element = waiting.waiters.PushBack(w)
	h.waiting++
	return w
}

// leave removes a waiter; more says that it has reason to think that there are more messages.
func (h *hub) leave(w *waiter, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	waiting := h.queues[w.queue]
	waiting.waiters.Remove(w.element)
	h.waiting--
	if waiting.waiters.Len() == 0 {
		delete(h.queues, w.queue)
		if w.hinted {
			h.remote.add(w.queue)
		}
		return
	}
	if w.hinted || more {
		waiting.hint(1)
	}
}

// take acknowledges a hint; the waiter is about to act on it.
func (h *hub) take(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.hinted = false
}

// wake hints at n more messages in the queue. It returns how many of them nobody here was hinted at.
func (h *hub) wake(queue string, n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if waiting := h.queues[queue]; waiting != nil {
		return waiting.hint(n)
	}
	return n
}

// wakeAll hints at n more messages that this process made ready, here first and elsewhere if some are left.
func (h *hub) wakeAll(queue string, n int) {
	if h.wake(queue, n) > 0 {
		h.remote.add(queue)
	}
}

// wakeAfter hints at one more message in the queue after a delay. Nothing is scheduled when nobody waits now: whoever
// comes later looks first, and the backstop is there.
func (h *hub) wakeAfter(queue string, delay time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queues[queue] != nil && delay <= maxWaitSeconds*time.Second {
		time.AfterFunc(delay, func() { h.wakeAll(queue, 1) })
	}
}

// hint gives n waiters a hint, skipping those that have one. It returns how many hints are left.
func (l *waitList) hint(n int) int {
	for element := l.waiters.Front(); element != nil && n > 0; element = element.Next() {
		if w, _ := element.Value.(*waiter); !w.hinted {
			w.hinted = true
			w.signal <- struct{}{}
			n--
		}
	}
	return n
}

// look is the backstop. When the database does not answer, nobody is woken: there is another look.
func (h *hub) look() {
	queues := h.waitedFor()
	if len(queues) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout) //nolint:forbidigo // it belongs to no request
	defer cancel()
	if ready, err := h.ready(ctx, queues); err == nil {
		for _, queue := range ready {
			h.wake(queue, 1)
		}
	}
	time.AfterFunc(h.period(), h.look)
}

// waitedFor returns the queues that somebody waits for. When there are none, looking ends.
func (h *hub) waitedFor() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looking = len(h.queues) > 0 && !h.isShut
	if !h.looking {
		return nil
	}
	return slices.Collect(maps.Keys(h.queues))
}

// period spreads the looks of several processes over ±25 %.
func (h *hub) period() time.Duration {
	const least, spread = 0.75, 0.5
	return time.Duration((least + spread*h.jitter()) * float64(backstop))
}

// close ends all waits, now and in future.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isShut {
		h.isShut = true
		close(h.closed)
	}
}

// count is the number of waiters.
func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting
}
