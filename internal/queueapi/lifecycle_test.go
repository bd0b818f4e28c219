package queueapi_test

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestLifecycleToSuccess(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	body := `{"payload":"{\"a\":1}","max_retries":5}`
	answer := s.do(http.MethodPost, "/queues/orders/messages", body).want(http.StatusCreated)
	m := decode[msg](answer)
	if m.Status != "pending" || m.RetryCount != 0 || m.MaxRetries != 5 || m.RetryAfter != nil || m.LastError != nil ||
		m.Queue != "orders" || m.Payload != `{"a":1}` || m.ID < 1 {
		t.Fatalf("enqueued %+v", m)
	}
	if want := itemPath("orders", m.ID); answer.header.Get("Location") != want {
		t.Errorf("Location %q, want %q", answer.header.Get("Location"), want)
	}
	held := s.claim("orders")
	if held.ID != m.ID || held.Status != "processing" || held.LeaseToken == "" || held.LeaseExpiresAt == nil {
		t.Fatalf("claimed %+v", held)
	}
	seen := s.do(http.MethodGet, itemPath("orders", m.ID), nil).want(http.StatusOK)
	if strings.Contains(string(seen.body), "lease_token") {
		t.Errorf("a read shows the lease token: %s", seen.body)
	}
	done := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/succeed", nil).want(http.StatusOK))
	if done.Status != "succeeded" || done.LeaseExpiresAt != nil {
		t.Errorf("succeeded %+v", done)
	}
	none := s.do(http.MethodPost, "/queues/orders/claim", `{}`).want(http.StatusOK)
	if got := strings.TrimSpace(string(none.body)); got != `{"claimed":false,"message":null}` {
		t.Errorf("empty claim answers %s", got)
	}
}

func TestFailuresBackOffUntilDead(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", `{"payload":"x","max_retries":5}`)
	for n, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
		m := s.claim("orders")
		failed := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/fail", `{"error":"boom"}`).want(http.StatusOK))
		if failed.Status != "pending" || failed.RetryCount != n+1 || *failed.LastError != "boom" {
			t.Fatalf("failure %d: %+v", n+1, failed)
		}
		if got := instant(t, *failed.RetryAfter).Sub(instant(t, failed.UpdatedAt)); got != want {
			t.Errorf("failure %d backs off %s, want %s", n+1, got, want)
		}
		s.makeReady("orders", m.ID)
	}
	m := s.claim("orders")
	failed := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/fail", `{"error":"last"}`).want(http.StatusOK))
	if failed.Status != "dead" || failed.RetryCount != 5 || failed.RetryAfter != nil || failed.DeadAt == nil {
		t.Fatalf("fifth failure: %+v", failed)
	}
	again := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/replay", nil).want(http.StatusOK))
	if again.Status != "pending" || again.RetryCount != 0 || again.LastError != nil || again.RetryAfter != nil ||
		again.MaxRetries != 5 || again.ReplayCount != 1 || again.DeliveryCount != 0 {
		t.Errorf("replayed %+v", again)
	}
	if next := s.claim("orders"); next.ID != m.ID {
		t.Errorf("claimed %d after the replay, want %d", next.ID, m.ID)
	}
}

func TestExtendMovesTheLease(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	m := s.claim("orders")
	body := map[string]any{"seconds": 600, "lease_token": m.LeaseToken}
	extended := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/extend", body).want(http.StatusOK))
	if gained := instant(t, *extended.LeaseExpiresAt).Sub(instant(t, *m.LeaseExpiresAt)); gained < 500*time.Second {
		t.Errorf("extend by 600 s gained %s", gained)
	}
	if extended.LeaseToken != "" {
		t.Error("extend shows the lease token")
	}
}

func TestReleaseCostsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	m := s.claim("orders")
	released := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/release", nil).want(http.StatusOK))
	if released.Status != "pending" || released.RetryCount != 0 || released.DeliveryCount != 0 {
		t.Fatalf("released %+v", released)
	}
	m = s.claim("orders")
	body := map[string]any{"delay_seconds": 60, "lease_token": m.LeaseToken}
	delayed := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/release", body).want(http.StatusOK))
	if delayed.RetryAfter == nil {
		t.Fatalf("released with a delay: %+v", delayed)
	}
	got := decode[claimed](s.do(http.MethodPost, "/queues/orders/claim", nil).want(http.StatusOK))
	if got.Claimed {
		t.Error("a message that was released with a delay is claimed at once")
	}
}

func TestStaleTokenChangesNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	first := s.claim("orders")
	s.do(http.MethodPost, itemPath("orders", first.ID)+"/release", nil).want(http.StatusOK)
	second := s.claim("orders")
	before := s.do(http.MethodGet, itemPath("orders", first.ID), nil).want(http.StatusOK)
	for _, action := range []string{"succeed", "fail", "release", "extend"} {
		body := map[string]any{"lease_token": first.LeaseToken}
		if action == "extend" {
			body["seconds"] = 60
		}
		s.do(http.MethodPost, itemPath("orders", first.ID)+"/"+action, body).problem(http.StatusConflict, "stale-lease")
	}
	after := s.do(http.MethodGet, itemPath("orders", first.ID), nil).want(http.StatusOK)
	if !bytes.Equal(before.body, after.body) {
		t.Errorf("stale calls changed the message:\n%s\n%s", before.body, after.body)
	}
	body := map[string]any{"lease_token": second.LeaseToken}
	s.do(http.MethodPost, itemPath("orders", first.ID)+"/succeed", body).want(http.StatusOK)
}

func TestExpiredLeaseIsACountedFailure(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	m := s.claim("orders")
	s.expireLease(m.ID)
	body := map[string]any{"lease_token": m.LeaseToken}
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/succeed", body).want(http.StatusConflict)
	if expired, err := s.store.ExpireLeases(t.Context(), 10); err != nil || expired != 1 {
		t.Fatalf("expired %d leases: %v", expired, err)
	}
	late := decode[msg](s.do(http.MethodGet, itemPath("orders", m.ID), nil).want(http.StatusOK))
	if late.Status != "pending" || late.RetryCount != 1 || late.LastFailure.Category != "TIMEOUT" {
		t.Errorf("after expiry: %+v", late)
	}
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/succeed", body).problem(http.StatusConflict, "not-processing")
}

func TestRequireLeaseToken(t *testing.T) {
	t.Parallel()
	s := newServer(t, requireToken)
	s.enqueue("orders", payloadOf("x"))
	m := s.claim("orders")
	for action, body := range map[string]string{"succeed": "{}", "fail": "", "release": "", "extend": `{"seconds":1}`} {
		p := s.do(http.MethodPost, itemPath("orders", m.ID)+"/"+action, body).problem(422, "invalid-request")
		if len(p.fields()) != 1 || p.fields()[0] != "lease_token:required" {
			t.Errorf("%s without a token: %v", action, p.fields())
		}
	}
	items := map[string]any{"items": []any{map[string]any{"id": m.ID}}}
	s.do(http.MethodPost, "/queues/orders/succeed", items).problem(422, "invalid-request")
	results := decode[batchResults](s.do(http.MethodPost, "/queues/orders/fail", items).want(http.StatusOK))
	if results.Results[0].Status != 422 {
		t.Errorf("fail of an item without a token: %+v", results)
	}
	body := map[string]any{"lease_token": m.LeaseToken}
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/succeed", body).want(http.StatusOK)
}

func TestBatches(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var bodies []any
	for range 5 {
		bodies = append(bodies, payloadOf("x"))
	}
	stored := decode[struct{ Messages []msg }](
		s.do(http.MethodPost, "/queues/orders/messages", map[string]any{"messages": bodies}).want(http.StatusCreated))
	if len(stored.Messages) != 5 {
		t.Fatalf("stored %d messages, want 5", len(stored.Messages))
	}
	got := decode[claimed](s.do(http.MethodPost, "/queues/orders/claim", `{"max":4}`).want(http.StatusOK))
	if len(got.Messages) != 4 || got.Messages[0].ID != stored.Messages[0].ID {
		t.Fatalf("claimed %+v", got)
	}
	item := func(i int, more map[string]any) map[string]any {
		body := map[string]any{"id": got.Messages[i].ID, "lease_token": got.Messages[i].LeaseToken}
		maps.Copy(body, more)
		return body
	}
	items := []any{
		item(0, nil), map[string]any{"id": got.Messages[1].ID, "lease_token": "stale"}, map[string]any{"id": 1 << 40},
	}
	done := decode[batchResults](s.do(http.MethodPost, "/queues/orders/succeed", map[string]any{"items": items}).want(200))
	if statuses := done.statuses(); statuses != "200 409 404" {
		t.Errorf("succeed answers %s", statuses)
	}
	if done.Results[0].Message.Status != "succeeded" || done.Results[1].Problem.Status != 409 {
		t.Errorf("succeed answers %+v", done)
	}
	items = []any{
		item(1, map[string]any{"error": []int{1}, "retryable": false}),
		map[string]any{"id": got.Messages[2].ID, "lease_token": 7},
		"not an object",
		map[string]any{"error": "no id"},
		item(3, nil),
	}
	failed := decode[batchResults](s.do(http.MethodPost, "/queues/orders/fail", map[string]any{"items": items}).want(200))
	if statuses := failed.statuses(); statuses != "200 422 422 422 200" {
		t.Errorf("fail answers %s", statuses)
	}
	if failed.Results[0].Message.Status != "dead" || failed.Results[4].Message.Status != "pending" {
		t.Errorf("fail answers %+v", failed)
	}
}
