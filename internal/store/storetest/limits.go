package storetest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// withTTL are settings with a time to live of a minute.
func withTTL() message.Settings {
	settings := message.DefaultSettings()
	settings.MessageTTL = time.Minute
	return settings
}

func (f Fixture) expireMessages(t TB) int {
	t.Helper()
	n, err := f.ExpireMessages(t.Context(), 1000)
	if err != nil {
		t.Fatalf("expire messages: %v", err)
	}
	return n
}

func wantExpired(t TB, m message.Message) {
	t.Helper()
	wantStatus(t, m, message.Dead)
	if m.LastFailure.Category != message.Expired || m.LastFailure.ErrorClass != "MessageExpired" || m.ExpiresAt != nil {
		t.Fatalf("failed with %+v, expires at %v", m.LastFailure, m.ExpiresAt)
	}
}

func wantDeadline(t TB, m message.Message, after time.Duration) {
	t.Helper()
	if m.ExpiresAt == nil || m.ExpiresAt.Sub(m.CreatedAt) != after {
		t.Fatalf("message created at %s expires at %v, want %s after that", m.CreatedAt, m.ExpiresAt, after)
	}
}

var limitTests = map[string]func(*testing.T, Fixture){
	"QueueGivesATimeToLive": func(t *testing.T, f Fixture) {
		f.Declare(t, queue, withTTL())
		accepted := f.enqueueN(t, 3)
		wantDeadline(t, accepted[0], time.Minute)
		wantDeadline(t, f.get(t, accepted[0].ID), time.Minute)
		wantDeadline(t, f.claimOne(t), time.Minute)
		f.Elapse(t, time.Hour)
		fresh := f.enqueueN(t, 1)[0]
		wantIDs(t, f.claim(t, 10), fresh.ID)
		for _, m := range accepted[1:] {
			wantExpired(t, f.get(t, m.ID))
		}
		f.expire(t)
		retrying := f.get(t, accepted[0].ID)
		wantStatus(t, retrying, message.Pending)
		if n := f.expireMessages(t); n != 1 {
			t.Fatalf("%d expired", n)
		}
		wantExpired(t, f.get(t, accepted[0].ID))
	},
	"OwnTimeToLiveStartsAfterTheDelay": func(t *testing.T, f Fixture) {
		f.Declare(t, queue, withTTL())
		m := f.enqueue(t, store.NewMessage{Payload: []byte("x"), Delay: time.Hour, TTL: time.Second})[0]
		wantDeadline(t, m, time.Hour+time.Second)
		plain := f.enqueue(t, store.NewMessage{Payload: []byte("x"), Delay: time.Hour})[0]
		wantDeadline(t, plain, time.Hour+time.Minute)
		f.Elapse(t, time.Hour+time.Second)
		wantIDs(t, f.claim(t, 10), plain.ID)
		if n := f.expireMessages(t); n != 1 {
			t.Fatalf("%d expired", n)
		}
		wantExpired(t, f.get(t, m.ID))
	},
	"NothingExpiresInAQueueWithout": func(t *testing.T, f Fixture) {
		m := f.enqueueN(t, 1)[0]
		if m.ExpiresAt != nil {
			t.Fatalf("expires at %s", m.ExpiresAt)
		}
		f.Elapse(t, 100*24*time.Hour)
		f.Maintain(t)
		if n := f.expireMessages(t); n != 0 {
			t.Fatalf("%d expired", n)
		}
		wantIDs(t, f.claim(t, 1), m.ID)
	},
	"HeldMessageMayFinishAfterItsTime": func(t *testing.T, f Fixture) {
		f.enqueue(t, store.NewMessage{Payload: []byte("x"), TTL: time.Second})
		held := f.claimOne(t)
		f.Elapse(t, 10*time.Second)
		if n := f.expireMessages(t); n != 0 {
			t.Fatalf("%d expired", n)
		}
		if settled := f.succeed(t, lease(held)); settled[0].Err != nil {
			t.Fatalf("succeed: %v", settled[0].Err)
		}
	},
	"ReplayStartsTheTimeAnew": func(t *testing.T, f Fixture) {
		own := f.enqueue(t, store.NewMessage{Payload: []byte("x"), TTL: time.Minute})[0]
		f.Elapse(t, time.Hour)
		f.expireMessages(t)
		f.Elapse(t, time.Hour) // Dead letters do not expire by it.
		if n := f.expireMessages(t); n != 0 {
			t.Fatalf("%d expired", n)
		}
		m, err := f.Replay(t.Context(), queue, own.ID)
		wantErr(t, err, nil)
		if m.ExpiresAt == nil || m.ExpiresAt.Sub(m.UpdatedAt) != time.Minute {
			t.Fatalf("replayed at %s, expires at %v", m.UpdatedAt, m.ExpiresAt)
		}
		wantIDs(t, f.claim(t, 1), own.ID)
	},
	"ReplayTakesTheQueuesTimeToLive": func(t *testing.T, f Fixture) {
		m := f.kill(t)
		f.Declare(t, queue, withTTL())
		back, err := f.Replay(t.Context(), queue, m.ID)
		wantErr(t, err, nil)
		if back.ExpiresAt == nil || back.ExpiresAt.Sub(back.UpdatedAt) != time.Minute {
			t.Fatalf("replayed at %s, expires at %v", back.UpdatedAt, back.ExpiresAt)
		}
	},
	"TimeToLiveSurvivesMoves": func(t *testing.T, f Fixture) {
		f.Declare(t, queue, withTTL())
		accepted := f.enqueueN(t, 3)
		f.failOne(t, f.claimOne(t), message.Report{RetryAfter: new(time.Duration)})
		f.Maintain(t)
		f.enqueueN(t, 1)
		f.Maintain(t)
		for _, m := range accepted {
			wantDeadline(t, f.get(t, m.ID), time.Minute)
		}
	},
	"FullQueueRejects": func(t *testing.T, f Fixture) {
		settings := message.DefaultSettings()
		settings.MaxLength = 3
		f.Declare(t, queue, settings)
		f.enqueueN(t, 2)
		for _, refused := range [][]store.NewMessage{
			{{Payload: []byte("1")}, {Payload: []byte("2")}},
			{{Payload: []byte("1"), Priority: 1}, {Payload: []byte("2")}},
		} {
			_, err := f.Enqueue(t.Context(), queue, refused)
			wantErr(t, err, store.ErrQueueFull)
			_, err = f.EnqueueOnce(t.Context(), queue, []store.KeyedMessages{{Key: "k", Messages: refused}})
			wantErr(t, err, store.ErrQueueFull)
		}
		f.enqueue(t, store.NewMessage{Payload: []byte("x"), Delay: time.Hour})
		held := f.claimOne(t)
		_, err := f.Enqueue(t.Context(), queue, []store.NewMessage{{Payload: []byte("x")}})
		wantErr(t, err, store.ErrQueueFull)
		f.succeed(t, lease(held))
		f.enqueueN(t, 1)
		settings.MaxLength = 0
		f.Declare(t, queue, settings)
		f.enqueueN(t, 5)
	},
	"FullQueueMakesDeadLetters": func(t *testing.T, f Fixture) {
		settings := message.DefaultSettings()
		settings.MaxLength, settings.Overflow = 1, message.OverflowDeadLetter
		f.Declare(t, queue, settings)
		kept := f.enqueueN(t, 1)[0]
		over := f.enqueue(t, store.NewMessage{
			Payload: []byte("x"), GroupKey: "k", Priority: 2, TTL: time.Hour, MaxRetries: 5,
			Headers: []message.Header{{Name: "a", Value: "b"}},
		})[0]
		wantStatus(t, over, message.Dead)
		over = f.get(t, over.ID)
		why := over.LastFailure
		if why.Category != message.Overflowed || why.ErrorClass != "QueueFull" || over.DeadAt == nil {
			t.Fatalf("failed with %+v at %v", why, over.DeadAt)
		}
		once, err := f.EnqueueOnce(t.Context(), queue, []store.KeyedMessages{{
			Key: "k", Messages: []store.NewMessage{{Payload: []byte("y")}},
		}})
		wantErr(t, err, nil)
		wantStatus(t, once[0].Messages[0], message.Dead)
		// A replay is never refused.
		back, err := f.Replay(t.Context(), queue, over.ID)
		wantErr(t, err, nil)
		if back.GroupKey != "k" || back.Priority != 2 || back.MaxRetries != 5 || len(back.Headers) != 1 {
			t.Fatalf("replayed as %+v", back)
		}
		wantIDs(t, f.claim(t, 10), over.ID, kept.ID)
	},
	"LengthIsExactUnderContention": func(t *testing.T, f Fixture) {
		const length, producers, each = 50, 8, 20
		settings := message.DefaultSettings()
		settings.MaxLength = length
		f.Declare(t, queue, settings)
		var (
			group    errgroup.Group
			accepted atomic.Int64
		)
		for producer := range producers {
			group.Go(func() error {
				for i := range each {
					m := store.NewMessage{Payload: []byte("x"), Priority: (producer + i) % 2}
					if _, err := f.Enqueue(t.Context(), queue, []store.NewMessage{m}); err == nil {
						accepted.Add(1)
					} else if !errors.Is(err, store.ErrQueueFull) {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		if accepted.Load() != length || len(f.claim(t, 1000)) != length {
			t.Fatalf("%d were accepted, want %d", accepted.Load(), length)
		}
	},
}
