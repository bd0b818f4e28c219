package queueapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/store"
)

type msgs struct{ Messages []msg }

// postOnce enqueues under an Idempotency-Key, if there is one.
func (s *server) postOnce(key, body string) *response {
	s.t.Helper()
	with := *s
	with.headers = http.Header{}
	if key != "" {
		with.headers.Set("Idempotency-Key", key)
	}
	return with.do(http.MethodPost, messagesPath("orders"), body)
}

// refuses fails the test unless exactly these fields are refused.
func (r *response) refuses(t *testing.T, fields ...string) {
	t.Helper()
	if diff := cmp.Diff(fields, r.problem(http.StatusUnprocessableEntity, "invalid-request").fields()); diff != "" {
		t.Error(diff)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	post := func(key, body string) *response { return s.postOnce(key, body) }
	first := decode[msg](post("k", `{"payload":"x"}`).want(201))
	again := post("k", `{"payload":"x"}`).want(200)
	if m := decode[msg](again); m.ID != first.ID || again.header.Get("Location") != itemPath("orders", first.ID) {
		t.Errorf("the repetition answers message %d at %q", m.ID, again.header.Get("Location"))
	}
	if m := decode[msg](post("", `{"payload":"x","deduplication_id":"k"}`).want(200)); m.ID != first.ID {
		t.Errorf("the id answers message %d, want %d", m.ID, first.ID)
	}
	post("k", `{"payload":"y"}`).refuses(t, "Idempotency-Key:key_reused")
	post("", `{"payload":"y","deduplication_id":"k"}`).refuses(t, "deduplication_id:key_reused")
	s.do(http.MethodPost, itemPath("orders", s.claim("orders").ID)+"/succeed", nil).want(200)
	if m := decode[msg](post("k", `{"payload":"x"}`).want(200)); m.Status != "succeeded" {
		t.Errorf("the message is shown as %s", m.Status)
	}
}

func TestIdempotencyKeyOfABatch(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	post := func(key, body string) *response { return s.postOnce(key, body) }
	const whole = `{"messages":[{"payload":"x"},{"payload":"y"}]}`
	first, again := decode[msgs](post("k", whole).want(201)), decode[msgs](post("k", whole).want(200))
	if len(again.Messages) != 2 || again.Messages[1].ID != first.Messages[1].ID {
		t.Errorf("the repetition answers %+v", again)
	}
	const each = `{"messages":[{"payload":"x","deduplication_id":"1"},{"payload":"y"},` +
		`{"payload":"z","deduplication_id":"2"}]}`
	post("", each).want(201)
	if mixed := decode[msgs](post("", each).want(201)); len(mixed.Messages) != 3 || mixed.Messages[1].Payload != "y" {
		t.Errorf("a repetition with one new message answers %+v", mixed)
	}
	post("", strings.Replace(each, `"z"`, `"other"`, 1)).refuses(t, "messages[2].deduplication_id:key_reused")
	post("key", each).refuses(t, "Idempotency-Key:invalid_value")
}

func TestKeysAreNeverIgnored(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, key := range []string{"a b", strings.Repeat("k", 256), "ключ"} {
		s.postOnce(key, `{"payload":"x"}`).refuses(t, "Idempotency-Key:invalid_value")
	}
	for id, code := range map[string]string{
		`""`: "invalid_value", `"` + strings.Repeat("k", 256) + `"`: "too_long", `1`: "wrong_type", `null`: "wrong_type",
	} {
		s.do(http.MethodPost, messagesPath("orders"), `{"payload":"x","deduplication_id":`+id+`}`).
			refuses(t, "deduplication_id:"+code)
	}
	s.do(http.MethodGet, queuePath("orders"), nil).problem(http.StatusNotFound, "not-found")
}

func TestClosedQueueSaysSo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	if err := s.store.CloseQueue(t.Context(), "orders", store.Owner{}, time.Minute); err != nil {
		t.Fatal(err)
	}
	s.do(http.MethodPost, "/queues/orders/messages", `{"payload":"x"}`).problem(http.StatusConflict, "queue-closed")
}
