package storetest

import (
	"bytes"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

var onceTests = map[string]func(*testing.T, Fixture){
	"AcceptsAKeyOnce": func(t *testing.T, f Fixture) {
		first := f.once(t, keyed("a", "x"), keyed("b", "y", "z"))
		again := f.once(t, keyed("b", "y", "z"), keyed("", "w"), keyed("a", "x"))
		for i, want := range []store.Accepted{first[1], {}, first[0]} {
			if again[i].Before != (i != 1) || len(again[i].Messages) != len(want.Messages) && i != 1 {
				t.Fatalf("request %d: %+v", i, again[i])
			}
			for j, m := range want.Messages {
				if got := again[i].Messages[j]; got.ID != m.ID || !bytes.Equal(got.Payload, m.Payload) {
					t.Fatalf("request %d: message %d, want %d", i, got.ID, m.ID)
				}
			}
		}
		if n := len(f.claim(t, 100)); n != 4 {
			t.Fatalf("%d messages were accepted, want 4", n)
		}
	},
	"ShowsTheMessageAsItIs": func(t *testing.T, f Fixture) {
		f.once(t, keyed("a", "x"))
		f.succeed(t, lease(f.claimOne(t)))
		wantStatus(t, f.once(t, keyed("a", "x"))[0].Messages[0], message.Succeeded)
	},
	"RefusesOtherMessagesUnderAKey": func(t *testing.T, f Fixture) {
		f.once(t, keyed("a", "x"))
		others := map[string]store.NewMessage{
			"payload": {Payload: []byte("y")}, "retries": {Payload: []byte("x"), MaxRetries: 5},
			"delay":  {Payload: []byte("x"), Delay: time.Minute},
			"header": {Payload: []byte("x"), Headers: []message.Header{{Name: "n", Value: "v"}}},
		}
		for name, other := range others {
			requests := []store.KeyedMessages{keyed("new", "n"), {Key: "a", Messages: []store.NewMessage{other}}}
			_, err := f.EnqueueOnce(t.Context(), queue, requests)
			reused := new(store.KeyReusedError)
			if !errors.As(err, &reused) || reused.Request != 1 || !errors.Is(err, store.ErrKeyReused) {
				t.Fatalf("another %s: %v", name, err)
			}
		}
		_, err := f.EnqueueOnce(t.Context(), queue, []store.KeyedMessages{keyed("twice", "x"), keyed("twice", "x")})
		wantErr(t, err, store.ErrKeyReused)
		if n := len(f.claim(t, 100)); n != 1 {
			t.Fatalf("a refused call left %d messages", n-1)
		}
	},
	"KeysAreTheQueuesOwn": func(t *testing.T, f Fixture) {
		f.once(t, keyed("a", "x"))
		accepted, err := f.EnqueueOnce(t.Context(), "other", []store.KeyedMessages{keyed("a", "y")})
		if err != nil || accepted[0].Before {
			t.Fatalf("in another queue: %+v, %v", accepted, err)
		}
	},
	"DelayedMessagesToo": func(t *testing.T, f Fixture) {
		later := store.KeyedMessages{Key: "a", Messages: []store.NewMessage{{Payload: []byte("x"), Delay: time.Minute}}}
		first, again := f.once(t, later), f.once(t, later)
		if again[0].Messages[0].ID != first[0].Messages[0].ID || len(f.claim(t, 1)) != 0 {
			t.Fatalf("accepted %+v, then %+v", first, again)
		}
	},
	"OneOfManyIsTheFirst": func(t *testing.T, f Fixture) {
		const producers = 16
		var (
			group sync.WaitGroup
			mu    sync.Mutex
			ids   = map[int64]int{}
			first int
		)
		for i := range producers {
			group.Go(func() {
				accepted, err := f.EnqueueOnce(t.Context(), queue, []store.KeyedMessages{keyed(strconv.Itoa(i%2), "x")})
				if err != nil {
					t.Errorf("enqueue once: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[accepted[0].Messages[0].ID]++
				if !accepted[0].Before {
					first++
				}
			})
		}
		group.Wait()
		if len(ids) != 2 || first != 2 {
			t.Fatalf("%d messages for 2 keys, %d firsts", len(ids), first)
		}
	},
}

func keyed(key string, payloads ...string) store.KeyedMessages {
	request := store.KeyedMessages{Key: key}
	for _, payload := range payloads {
		request.Messages = append(request.Messages, store.NewMessage{Payload: []byte(payload)})
	}
	return request
}

func (f Fixture) once(t TB, requests ...store.KeyedMessages) []store.Accepted {
	t.Helper()
	accepted, err := f.EnqueueOnce(t.Context(), queue, requests)
	if err != nil {
		t.Fatalf("enqueue once: %v", err)
	}
	return accepted
}
