package store_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// ledger is what callers were told, and what of it cannot be.
type ledger struct {
	// distance is how far the database's clock may be from ours.
	distance time.Duration
	// cut says that calls may fail for want of a session.
	cut bool

	mu       sync.Mutex
	accounts map[int64]*account
	// uncertain is how many messages may be stored though nobody was told.
	uncertain int
	// open is how many accepted messages have not succeeded.
	open                   int
	claims, lapsed, faults int
	turns                  store.RotationResult
	contradictions         []string
	// contradicted counts them by kind, which is their format.
	contradicted map[string]int
}

// account is what was told of one message. It begins with the answer to the enqueue or with a claim that was faster.
type account struct {
	queue, payload string
	accepted       bool
	// succeeded says that a worker was told so, perhaps that one was not told whether.
	succeeded, perhaps bool
	last               hold
}

// hold is the newest lease that was told of, in the database's time.
type hold struct {
	token       string
	from, until time.Time
	// givenUp says that the worker has asked for its end.
	givenUp bool
}

// shownContradictions of a kind are enough to see what is wrong.
const shownContradictions = 3

func newLedger(distance time.Duration, cut bool) *ledger {
	return &ledger{distance: distance, cut: cut, accounts: map[int64]*account{}, contradicted: map[string]int{}}
}

// wrong notes what cannot be.
func (l *ledger) wrong(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contradict(format, args...)
}

// contradict is wrong for those who have the lock.
func (l *ledger) contradict(format string, args ...any) {
	if l.contradicted[format]++; l.contradicted[format] <= shownContradictions {
		l.contradictions = append(l.contradictions, fmt.Sprintf(format, args...))
	}
}

func (l *ledger) report(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, contradiction := range l.contradictions {
		t.Error(contradiction)
	}
	for kind, n := range l.contradicted {
		if n > shownContradictions {
			t.Errorf("%d times: %s", n, kind)
		}
	}
}

func (l *ledger) summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d messages, %d unfinished, %d claims, %d leases refused after their end, %d calls cut off; "+
		"%d segments freed, %d messages moved, %d removed",
		len(l.accounts), l.open, l.claims, l.lapsed, l.faults, l.turns.Freed, l.turns.Moved, l.turns.Removed)
}

// turned adds what a pass of rotation did.
func (l *ledger) turned(result store.RotationResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns.Freed += result.Freed
	l.turns.Moved += result.Moved
	l.turns.Removed += result.Removed
}

// failed reports whether a call came to nothing, or nobody knows to what. Only the end of a session excuses it.
func (l *ledger) failed(what string, err error) bool {
	if err == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults++; !l.cut || !store.IsUnavailable(err) {
		l.contradict("%s: %v", what, err)
	}
	return true
}

// of returns a message's account. What is told of its queue and payload is always the same.
func (l *ledger) of(queue string, m message.Message) *account {
	a := l.accounts[m.ID]
	if a == nil {
		a = &account{queue: queue, payload: string(m.Payload)}
		l.accounts[m.ID] = a
	}
	if a.queue != queue || a.payload != string(m.Payload) {
		l.contradict("message %d is %q of %s, and then %q of %s", m.ID, a.payload, a.queue, m.Payload, queue)
	}
	return a
}

func (l *ledger) mayHaveAccepted(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncertain += n
}

func (l *ledger) accepted(queue string, asked []store.NewMessage, stored []message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(stored) != len(asked) {
		l.contradict("%d messages of %d are accepted", len(stored), len(asked))
		return
	}
	for i, m := range stored {
		if !bytes.Equal(m.Payload, asked[i].Payload) {
			l.contradict("%q is accepted as %q", asked[i].Payload, m.Payload)
		}
		a := l.of(queue, m)
		if a.accepted {
			l.contradict("message %d is accepted twice", m.ID)
		}
		if a.accepted = true; !a.succeeded {
			l.open++
		}
	}
}

func (l *ledger) unfinished() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *ledger) acceptedIn(queue string) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []int64
	for id, a := range l.accounts {
		if a.accepted && a.queue == queue {
			ids = append(ids, id)
		}
	}
	return ids
}

// claimed begins leases. A claim is told of late when its worker had to wait, so either lease may be the earlier one.
func (l *ledger) claimed(queue string, claimed []message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range claimed {
		l.claims++
		a, next := l.of(queue, m), hold{token: m.Lease.Token, from: m.UpdatedAt, until: m.Lease.ExpiresAt}
		if a.succeeded {
			l.contradict("message %d is claimed after it has succeeded", m.ID)
		}
		if !a.last.givenUp && next.from.Before(a.last.until) && a.last.from.Before(next.until) {
			l.contradict("message %d is held from %v to %v, and from %v to %v", m.ID, a.last.from, a.last.until, next.from,
				next.until)
		}
		if !next.from.Before(a.last.from) {
			a.last = next
		}
	}
}

// givenUp says that others may have the messages from now on, whatever becomes of the call.
func (l *ledger) givenUp(held []message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range held {
		if last := &l.accounts[m.ID].last; last.token == m.Lease.Token {
			last.givenUp = true
		}
	}
}

func (l *ledger) extended(m message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := &l.accounts[m.ID].last; last.token == m.Lease.Token {
		last.until = m.Lease.ExpiresAt
	} else {
		l.contradict("message %d is extended under a lease that another has followed", m.ID)
	}
}

func (l *ledger) succeeded(m message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[m.ID]
	if a.succeeded {
		l.contradict("message %d has succeeded twice", m.ID)
		return
	}
	if a.last.token != m.Lease.Token {
		l.contradict("message %d has succeeded under a lease that another has followed", m.ID)
	}
	if a.succeeded = true; a.accepted {
		l.open--
	}
}

func (l *ledger) mayHaveSucceeded(finished []message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range finished {
		l.accounts[m.ID].perhaps = true
	}
}

// refused says that a lease was not taken for a valid one, at some time before now.
func (l *ledger) refused(what string, m message.Message, err error) {
	now := time.Now().Add(l.distance)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lapsed++; now.Before(m.Lease.ExpiresAt) {
		l.contradict("%s: the lease of message %d lasts until %v and is refused before %v: %v", what, m.ID,
			m.Lease.ExpiresAt, now, err)
	}
}
