package blackbox_test

import (
	"maps"
	"sync"
	"testing"
	"time"
)

// ledger is what the clients know to be true: it is written only when an answer has arrived whole.
type ledger struct {
	t *testing.T

	mu sync.Mutex
	// accepted are the payloads of the messages that were answered with 201.
	accepted map[int64]string
	// finished are the messages whose succeed was answered with 200.
	finished map[int64]bool
	// held are the holds that were handed to a worker and that the worker has not ended.
	held map[int64]hold
	// claims counts the holds that were handed out.
	claims int
}

// hold is a worker's view of one lease, by the database's clock.
type hold struct {
	token          string
	since, expires time.Time
	// unsure is set when the worker tried to end the hold and does not know whether it did.
	unsure bool
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	return &ledger{t: t, accepted: map[int64]string{}, finished: map[int64]bool{}, held: map[int64]hold{}}
}

func (l *ledger) accept(all []message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range all {
		if other, twice := l.accepted[m.ID]; twice {
			l.t.Errorf("id %d was given to two messages: %q and %q", m.ID, other, m.Payload)
		}
		l.accepted[m.ID] = m.Payload
	}
}

// claim records a hold, and checks that no other one is alive: a lease may be given out again only after it was ended
// or, by the database's clock, has expired.
func (l *ledger) claim(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims++
	since := m.LeaseExpiresAt.Add(-visibility)
	if before, ok := l.held[m.ID]; ok && !before.unsure && since.Before(before.expires) {
		l.t.Errorf("message %d was claimed at %s, but is held until %s", m.ID, since, before.expires)
	}
	if l.finished[m.ID] {
		l.t.Errorf("message %d was claimed after it was finished", m.ID)
	}
	l.held[m.ID] = hold{token: m.LeaseToken, since: since, expires: *m.LeaseExpiresAt}
}

// lastMoment is how long a claim may not be on disk, by Postgres's default: three times wal_writer_delay, and a margin.
const lastMoment = time.Second

// crash records that the database was killed at a time, by the clock of its machine, which is this one. Claims do not
// wait for the disk, so those of the last moment may be undone; nothing else may.
func (l *ledger) crash(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, h := range l.held {
		if h.since.After(at.Add(-lastMoment)) && h.since.Before(at) {
			h.unsure = true
			l.held[id] = h
		}
	}
}

// end records how the worker's call to end its hold was answered; status 0 means not at all.
func (l *ledger) end(m message, action string, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	current := l.held[m.ID]
	if current.token != m.LeaseToken {
		return // The lease expired, and another worker holds the message now.
	}
	switch {
	case status == 200:
		delete(l.held, m.ID)
		if action == "succeed" {
			l.finished[m.ID] = true
		}
	case status == 0 || status >= 500:
		current.unsure = true
		l.held[m.ID] = current
	}
}

func (l *ledger) counts() (accepted, finished, claims int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted), len(l.finished), l.claims
}

// snapshot returns copies of what was accepted, finished and is held.
func (l *ledger) snapshot() (accepted map[int64]string, finished map[int64]bool, held map[int64]hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	finished = map[int64]bool{}
	for id := range l.finished {
		finished[id] = true
	}
	return maps.Clone(l.accepted), finished, maps.Clone(l.held)
}
