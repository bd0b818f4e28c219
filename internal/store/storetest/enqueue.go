package storetest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

var enqueueTests = map[string]func(*testing.T, Fixture){
	"StoresBytesAndHeadersUnchanged": func(t *testing.T, f Fixture) {
		payload := make([]byte, 256)
		for i := range payload {
			payload[i] = byte(i)
		}
		headers := []message.Header{{Name: "trace", Value: "1"}, {Name: "a", Value: `"\ü`}, {Name: "trace", Value: ""}}
		accepted := f.enqueue(t, store.NewMessage{Payload: payload, Headers: headers})[0]
		for _, m := range []message.Message{accepted, f.get(t, accepted.ID), f.claimOne(t)} {
			if !bytes.Equal(m.Payload, payload) {
				t.Fatalf("payload is %x", m.Payload)
			}
			if diff := cmp.Diff(headers, m.Headers); diff != "" {
				t.Fatalf("headers (-sent +got):\n%s", diff)
			}
		}
	},
	"StartsPendingWithDefaults": func(t *testing.T, f Fixture) {
		m := f.enqueueN(t, 1)[0]
		want := message.Message{
			ID: m.ID, Queue: queue, Payload: []byte("0"), PayloadSize: 1, Status: message.Pending, MaxRetries: 3,
			CreatedAt: m.CreatedAt, UpdatedAt: m.CreatedAt,
		}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Fatalf("message (-want +got):\n%s", diff)
		}
	},
	"KeepsBatchOrder": func(t *testing.T, f Fixture) {
		accepted := f.enqueueN(t, 100)
		for i, m := range f.claim(t, 100) {
			if m.ID != accepted[i].ID || !bytes.Equal(m.Payload, accepted[i].Payload) {
				t.Fatalf("claim %d is message %d (%s)", i, m.ID, m.Payload)
			}
		}
		if !slices.IsSortedFunc(accepted, func(a, b message.Message) int { return int(a.ID - b.ID) }) {
			t.Fatalf("ids do not grow in batch order")
		}
	},
	"UsesTheQueuesRetries": func(t *testing.T, f Fixture) {
		settings := message.DefaultSettings()
		settings.MaxRetries = 7
		f.Declare(t, queue, settings)
		accepted := f.enqueue(t,
			store.NewMessage{Payload: []byte("a")}, store.NewMessage{Payload: []byte("b"), MaxRetries: 2})
		if accepted[0].MaxRetries != 7 || accepted[1].MaxRetries != 2 {
			t.Fatalf("max retries are %d and %d", accepted[0].MaxRetries, accepted[1].MaxRetries)
		}
	},
	"DelayHoldsBack": func(t *testing.T, f Fixture) {
		late := f.enqueue(t, store.NewMessage{Payload: []byte("late"), Delay: time.Hour})[0]
		if wait := late.RetryAfter.Sub(late.CreatedAt); wait != time.Hour {
			t.Fatalf("ready after %s", wait)
		}
		f.Elapse(t, time.Hour-time.Minute)
		if claimed := f.claim(t, 1); len(claimed) != 0 {
			t.Fatalf("claimed a message before its time")
		}
		f.Elapse(t, time.Minute)
		if m := f.claimOne(t); m.ID != late.ID || m.RetryAfter != nil {
			t.Fatalf("claimed %+v", m)
		}
	},
	"KeepsQueuesApart": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		m := f.get(t, f.claimOne(t).ID)
		for _, call := range []func() error{
			func() error { _, err := f.Get(t.Context(), "other", m.ID); return err },
			func() error { _, err := f.Replay(t.Context(), "other", m.ID); return err },
			func() error { return f.settleIn(t, "other", m.ID) },
		} {
			wantErr(t, call(), store.ErrNotFound)
		}
	},
}

func (f Fixture) settleIn(t TB, name string, id int64) error {
	t.Helper()
	settled, err := f.Succeed(t.Context(), name, []store.LeaseRef{{ID: id}})
	if err != nil {
		t.Fatalf("succeed: %v", err)
	}
	return settled[0].Err
}
