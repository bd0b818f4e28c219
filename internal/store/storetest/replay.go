package storetest

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

var replayTests = map[string]func(*testing.T, Fixture){
	"ResetsWhatCanKill": func(t *testing.T, f Fixture) {
		dead := f.kill(t)
		m, err := f.Replay(t.Context(), queue, dead.ID)
		wantErr(t, err, nil)
		want := message.Message{
			ID: dead.ID, Queue: queue, Payload: dead.Payload, PayloadSize: 1, Status: message.Pending,
			MaxRetries:  dead.MaxRetries,
			ReplayCount: 1, FirstFailureAt: dead.FirstFailureAt, CreatedAt: dead.CreatedAt, UpdatedAt: m.UpdatedAt,
		}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Fatalf("replayed message (-want +got):\n%s", diff)
		}
		if claimed := f.claimOne(t); claimed.ID != dead.ID {
			t.Fatalf("claimed message %d", claimed.ID)
		}
	},
	"OnlyTheDead": func(t *testing.T, f Fixture) {
		_, err := f.Replay(t.Context(), queue, 1)
		wantErr(t, err, store.ErrNotFound)
		id := f.enqueueN(t, 1)[0].ID
		_, err = f.Replay(t.Context(), queue, id)
		wantErr(t, err, store.ErrNotDead)
		m := f.claimOne(t)
		_, err = f.Replay(t.Context(), queue, id)
		wantErr(t, err, store.ErrNotDead)
		f.succeed(t, lease(m))
		_, err = f.Replay(t.Context(), queue, id)
		wantErr(t, err, store.ErrNotDead)
	},
	"CyclesKeepTheMessageIdentical": func(t *testing.T, f Fixture) {
		headers := []message.Header{{Name: "retryCount", Value: "7"}, {Name: "retryCount", Value: "8"}}
		id := f.enqueue(t, store.NewMessage{Payload: []byte("\x00\xff"), Headers: headers, MaxRetries: 1})[0].ID
		for range 60 {
			wantStatus(t, f.failOne(t, f.claimOne(t), message.Report{Reason: "again"}), message.Dead)
			_, err := f.Replay(t.Context(), queue, id)
			wantErr(t, err, nil)
		}
		m := f.get(t, id)
		if !bytes.Equal(m.Payload, []byte("\x00\xff")) || m.ReplayCount != 60 {
			t.Fatalf("message is %+v", m)
		}
		if diff := cmp.Diff(headers, m.Headers); diff != "" {
			t.Fatalf("headers (-sent +got):\n%s", diff)
		}
	},
	"RestoresEveryDelivery": func(t *testing.T, f Fixture) {
		settings := message.DefaultSettings()
		settings.MaxDeliveries = 1
		f.Declare(t, queue, settings)
		f.enqueueN(t, 1)
		m := f.claimOne(t)
		f.Elapse(t, time.Hour)
		f.expire(t)
		wantStatus(t, f.get(t, m.ID), message.Dead)
		_, err := f.Replay(t.Context(), queue, m.ID)
		wantErr(t, err, nil)
		wantErr(t, f.succeed(t, lease(f.claimOne(t)))[0].Err, nil)
	},
}
