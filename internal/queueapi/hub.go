package queueapi

import (
	"container/list"
	"sync"
	"time"
)

// backstop is how often a queue that somebody waits for is looked at without a wake-up: it bounds the wait for messages
// that become ready by themselves, or through another process.
const backstop = 400 * time.Millisecond

// hub wakes long polls. Changes that this process makes wake the waiters of the queue at once; everything else is found
// by the backstop, which wakes one waiter per queue, however many there are.
//
// A wake-up is a hint that there may be one more message. It is never lost: a waiter that leaves without having acted
// on its hint passes it on, and one that found as much as it asked for hints at the rest.
type hub struct {
	jitter func() float64
	closed chan struct{}

	mu      sync.Mutex
	isShut  bool
	waiting int
	queues  map[string]*waitList
}

// waitList is the waiters of one queue, first come first.
type waitList struct {
	waiters *list.List
	timer   *time.Timer
}

// waiter is one long poll.
type waiter struct {
	// signal has room for one hint.
	signal  chan struct{}
	queue   string
	element *list.Element
	// hinted is set from hint to take; guarded by hub.mu.
	hinted bool
}

func newHub(jitter func() float64) *hub {
	return &hub{jitter: jitter, closed: make(chan struct{}), queues: map[string]*waitList{}}
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
		waiting.timer = time.AfterFunc(h.period(), func() { h.lookAgain(queue, waiting) })
		h.queues[queue] = waiting
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
		waiting.timer.Stop()
		delete(h.queues, w.queue)
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

// wake hints at n more messages in the queue.
func (h *hub) wake(queue string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if waiting := h.queues[queue]; waiting != nil {
		waiting.hint(n)
	}
}

// wakeAfter hints at one more message in the queue after a delay. Nothing is scheduled when nobody waits now: whoever
// comes later looks first, and the backstop is there.
func (h *hub) wakeAfter(queue string, delay time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queues[queue] != nil && delay <= maxWaitSeconds*time.Second {
		time.AfterFunc(delay, func() { h.wake(queue, 1) })
	}
}

// hint gives n waiters a hint, skipping those that have one.
func (l *waitList) hint(n int) {
	for element := l.waiters.Front(); element != nil && n > 0; element = element.Next() {
		if w, _ := element.Value.(*waiter); !w.hinted {
			w.hinted = true
			w.signal <- struct{}{}
			n--
		}
	}
}

// lookAgain is the backstop of one queue.
func (h *hub) lookAgain(queue string, waiting *waitList) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queues[queue] == waiting {
		waiting.hint(1)
		waiting.timer.Reset(h.period())
	}
}

// period spreads the backstops of the queues over ±25 %.
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
