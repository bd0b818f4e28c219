package storetest

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

var claimTests = map[string]func(*testing.T, Fixture){
	"LeasesForTheVisibilityTimeout": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 2)
		m := f.claimOne(t)
		wantStatus(t, m, message.Processing)
		if held := m.Lease.ExpiresAt.Sub(m.UpdatedAt); held != 30*time.Second {
			t.Fatalf("held for %s, want the default of 30 s", held)
		}
		claimed, err := f.Claim(t.Context(), queue, store.ClaimParams{
			Max: 1, VisibilityTimeout: time.Minute, Consumer: message.Consumer{Instance: "pod-1", Version: "1.2"},
		})
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		if held := claimed[0].Lease.ExpiresAt.Sub(claimed[0].UpdatedAt); held != time.Minute {
			t.Fatalf("held for %s, want what the claim asked for", held)
		}
		if claimed[0].Lease.Consumer != (message.Consumer{Instance: "pod-1", Version: "1.2"}) {
			t.Fatalf("held by %+v", claimed[0].Lease.Consumer)
		}
	},
	"GivesEachMessageOnce": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 3)
		if got := len(f.claim(t, 2)) + len(f.claim(t, 2)) + len(f.claim(t, 2)); got != 3 {
			t.Fatalf("claimed %d of 3", got)
		}
	},
	"FirstReadyFirstOut": func(t *testing.T, f Fixture) {
		late := f.enqueue(t, store.NewMessage{Payload: []byte("late"), Delay: 2 * time.Minute})[0]
		soon := f.enqueue(t, store.NewMessage{Payload: []byte("soon"), Delay: time.Minute})[0]
		now := f.enqueueN(t, 1)[0]
		f.Elapse(t, time.Hour)
		for i, want := range []int64{now.ID, soon.ID, late.ID} {
			if m := f.claimOne(t); m.ID != want {
				t.Fatalf("claim %d is message %d, want %d", i, m.ID, want)
			}
		}
	},
	"UnknownQueueGivesNothingAndMakesNothing": func(t *testing.T, f Fixture) {
		if claimed := f.claim(t, 1); len(claimed) != 0 {
			t.Fatalf("claimed %d", len(claimed))
		}
	},
	"StopsAtMaxBytesButGivesOne": func(t *testing.T, f Fixture) {
		big := store.NewMessage{Payload: make([]byte, 1000)}
		f.enqueue(t, big, big, big)
		for _, c := range []struct{ maxBytes, want int }{{1500, 2}, {1, 1}} {
			held, err := f.Claim(t.Context(), queue, store.ClaimParams{Max: 10, MaxBytes: c.maxBytes})
			wantErr(t, err, nil)
			if len(held) != c.want {
				t.Fatalf("claimed %d messages within %d bytes, want %d", len(held), c.maxBytes, c.want)
			}
		}
	},
	"PausedQueueGivesNothing": func(t *testing.T, f Fixture) {
		settings := message.DefaultSettings()
		settings.State = message.Paused
		f.Declare(t, queue, settings)
		f.enqueueN(t, 1)
		if claimed := f.claim(t, 1); len(claimed) != 0 {
			t.Fatalf("claimed from a paused queue")
		}
		settings.State = message.Active
		f.Declare(t, queue, settings)
		f.claimOne(t)
	},
}
