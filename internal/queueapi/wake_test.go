package queueapi

import (
	"errors"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

func inGroup(key string, status message.Status) message.Message {
	return message.Message{GroupKey: key, Status: status}
}

// TestWakeUpsAreAsManyAsThereMayBeMessages: a hint too many costs a claim in vain, and one too few a wait.
func TestWakeUpsAreAsManyAsThereMayBeMessages(t *testing.T) {
	t.Parallel()
	delayed := inGroup("k", message.Pending)
	delayed.RetryAfter = new(time.Time{}.Add(time.Hour))
	settled := func(m message.Message, err error) func(*API) {
		return func(a *API) { a.wakeNext("q", store.Settled{Message: m, Err: err}) }
	}
	ready := func(messages ...message.Message) func(*API) {
		return func(a *API) { a.wakeFor("q", messages) }
	}
	tests := map[string]struct {
		want int
		act  func(*API)
	}{
		"messages of no group": {2, ready(inGroup("", message.Pending), inGroup("", message.Pending))},
		"two groups": {2, ready(inGroup("a", message.Pending), inGroup("b", message.Pending),
			inGroup("a", message.Pending), inGroup("b", message.Pending))},
		"a group behind a delayed head": {0, ready(delayed, inGroup("k", message.Pending))},
		"dead letters of a full queue":  {0, ready(inGroup("k", message.Dead), inGroup("", message.Dead))},
		"success in a group":            {1, settled(inGroup("k", message.Succeeded), nil)},
		"death in a group":              {1, settled(inGroup("k", message.Dead), nil)},
		"retry in a group":              {0, settled(inGroup("k", message.Pending), nil)},
		"success of no group":           {0, settled(inGroup("", message.Succeeded), nil)},
		"no success":                    {0, settled(inGroup("k", message.Succeeded), errors.New("stale"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(middle, everyQueue)
			waiters := []*waiter{h.join("q"), h.join("q"), h.join("q")}
			test.act(&API{hub: h})
			got := 0
			for _, w := range waiters {
				if hinted(w) {
					h.take(w) // Or it would be passed on.
					got++
				}
				h.leave(w, false)
			}
			if got != test.want {
				t.Errorf("%d waiters are woken, want %d", got, test.want)
			}
		})
	}
}
