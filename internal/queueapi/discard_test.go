package queueapi_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

func TestDiscardRemovesOneDeadLetter(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	m := s.claim("orders")
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/discard", nil).problem(http.StatusConflict, "not-dead")
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/fail", `{"retryable":false}`).want(http.StatusOK)
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/discard", `{"force":true}`).
		problem(http.StatusUnprocessableEntity, "invalid-request")
	gone := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/discard", nil).want(http.StatusOK))
	if gone.ID != m.ID || gone.Status != "dead" || gone.Payload != "x" {
		t.Errorf("discarded %+v", gone)
	}
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/discard", nil).problem(http.StatusNotFound, "not-found")
	letterID := strconv.FormatInt(m.ID, 10)
	s.do(http.MethodGet, "/queues/orders/dead-letters/"+letterID, nil).problem(http.StatusNotFound, "not-found")
}

// purged is the answer to a purge.
type purged struct {
	Scope    string    `json:"scope"`
	Before   time.Time `json:"before"`
	Removed  int       `json:"removed"`
	Complete bool      `json:"complete"`
}

func TestPurgeByScope(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("dead"))
	m := s.claim("orders")
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/fail", `{"retryable":false}`).want(http.StatusOK)
	s.enqueue("orders", payloadOf("held"))
	held := s.claim("orders")
	s.enqueue("orders", payloadOf("pending"))
	long := s.do(http.MethodPost, "/queues/orders/purge", `{"scope":"pending","before":"2020-01-01T00:00:00Z"}`)
	if got := decode[purged](long.want(http.StatusOK)); got.Removed != 0 || !got.Complete || got.Before.Year() != 2020 {
		t.Errorf("purge of what is older: %+v", got)
	}
	got := decode[purged](s.do(http.MethodPost, "/queues/orders/purge", `{"scope":"pending"}`).want(http.StatusOK))
	if got.Removed != 1 || !got.Complete || got.Scope != "pending" || got.Before.IsZero() {
		t.Errorf("purge: %+v", got)
	}
	for _, id := range []int64{m.ID, held.ID} {
		s.do(http.MethodGet, itemPath("orders", id), nil).want(http.StatusOK)
	}
	got = decode[purged](s.do(http.MethodPost, "/queues/orders/purge", `{"scope":"dead"}`).want(http.StatusOK))
	if got.Removed != 1 {
		t.Errorf("purge of the dead: %+v", got)
	}
	s.do(http.MethodPost, itemPath("orders", held.ID)+"/succeed", nil).want(http.StatusOK)
}

func TestPurgeRefusesWhatIsNotSaidClearly(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m := s.enqueue("orders", payloadOf("x"))
	for body, want := range map[string]string{
		``: "scope:required", `{}`: "scope:required", `{"scope":"all"}`: "scope:invalid_value",
		`{"scope":"processing"}`: "scope:invalid_value", `{"scope":1}`: "scope:wrong_type", `{"scope":null}`: "scope:wrong_type",
		`{"scope":"pending","before":"yesterday"}`: "before:invalid_value", `{"scope":"pending","before":5}`: "before:wrong_type",
		`{"scope":"pending","before":"0001-01-01T00:00:00Z"}`: "before:invalid_value",
		`{"scope":"pending","after":"2020-01-01T00:00:00Z"}`:  "after:unknown_field",
	} {
		p := s.do(http.MethodPost, "/queues/orders/purge", body).problem(http.StatusUnprocessableEntity, "invalid-request")
		if got := p.Errors[0].Field + ":" + p.Errors[0].Code; got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	s.do(http.MethodPost, "/queues/nothing/purge", `{"scope":"pending"}`).problem(http.StatusNotFound, "not-found")
	s.do(http.MethodGet, itemPath("orders", m.ID), nil).want(http.StatusOK)
}
