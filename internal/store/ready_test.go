package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

func TestReadyQueues(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	names := []string{"empty", "held", "later", "logged", "nowhere", "paused", "retried"}
	enqueue := func(queue string, delay time.Duration) {
		t.Helper()
		if _, err := d.Enqueue(t.Context(), queue, []store.NewMessage{{Payload: []byte("x"), Delay: delay}}); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
	}
	claim := func(queue string) message.Message {
		t.Helper()
		held, err := d.Claim(t.Context(), queue, store.ClaimParams{Max: 1})
		if err != nil || len(held) != 1 {
			t.Fatalf("claimed %d, %v", len(held), err)
		}
		return held[0]
	}
	for _, queue := range []string{"held", "logged", "paused", "retried"} {
		enqueue(queue, 0)
	}
	enqueue("later", time.Minute)
	claim("held")
	if _, err := d.Release(t.Context(), "retried", store.LeaseRef{ID: claim("retried").ID}, 0); err != nil {
		t.Fatalf("release: %v", err)
	}
	settings := message.DefaultSettings()
	settings.State = message.Paused
	d.declare(t, "paused", settings)
	d.declare(t, "empty", message.DefaultSettings())
	ready := func(want ...string) {
		t.Helper()
		got, err := d.ReadyQueues(t.Context(), names)
		if err != nil {
			t.Fatalf("ready queues: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
	ready("logged", "retried")
	d.rotate(t, store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour})
	ready("logged", "retried")
	d.elapse(t, time.Minute)
	ready("later", "logged", "retried")
}
