package storetest

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

var expireTests = map[string]func(*testing.T, Fixture){
	"ExpiryIsACountedFailure": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		m := f.claimOne(t)
		f.Elapse(t, 30*time.Second)
		if n := f.expire(t); n != 1 {
			t.Fatalf("%d leases expired, want 1", n)
		}
		now := f.get(t, m.ID)
		wantStatus(t, now, message.Pending)
		if now.RetryCount != 1 || now.LastFailure.Category != message.Timeout || now.RetryAfter == nil {
			t.Fatalf("message is %+v", now)
		}
		f.Elapse(t, time.Hour)
		f.claimOne(t)
		wantErr(t, f.succeed(t, lease(m))[0].Err, store.ErrStaleLease)
	},
	"LateTokenIsRefusedBeforeTheSweep": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		m := f.claimOne(t)
		f.Elapse(t, 30*time.Second)
		wantErr(t, f.succeed(t, lease(m))[0].Err, store.ErrNotProcessing)
		wantErr(t, f.fail(t, store.FailedLease{LeaseRef: lease(m)})[0].Err, store.ErrNotProcessing)
		_, err := f.Extend(t.Context(), queue, lease(m), time.Hour)
		wantErr(t, err, store.ErrNotProcessing)
		_, err = f.Release(t.Context(), queue, store.LeaseRef{ID: m.ID}, 0)
		wantErr(t, err, store.ErrNotProcessing)
		if n := f.expire(t); n != 1 {
			t.Fatalf("a late call changed the message")
		}
	},
	"ExpiryExhaustsRetries": func(t *testing.T, f Fixture) {
		id := f.enqueue(t, store.NewMessage{Payload: []byte("x"), MaxRetries: 2})[0].ID
		for range 2 {
			f.claimOne(t)
			f.Elapse(t, time.Hour)
			f.expire(t)
			f.Elapse(t, time.Hour)
		}
		m := f.get(t, id)
		wantStatus(t, m, message.Dead)
		if m.LastFailure.Category != message.Timeout {
			t.Fatalf("category is %s", m.LastFailure.Category)
		}
	},
	"MaxDeliveriesIsPoison": func(t *testing.T, f Fixture) {
		settings := message.DefaultSettings()
		settings.MaxRetries, settings.MaxDeliveries = 10, 3
		f.Declare(t, queue, settings)
		id := f.enqueueN(t, 1)[0].ID
		for range 3 {
			f.claimOne(t)
			f.Elapse(t, time.Hour)
			f.expire(t)
			f.Elapse(t, time.Hour)
		}
		m := f.get(t, id)
		wantStatus(t, m, message.Dead)
		if m.LastFailure.Category != message.Poison || m.DeliveryCount != 3 {
			t.Fatalf("dead letter is %+v", m)
		}
	},
}
