package store_test

import (
	"errors"
	"testing"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

func TestKeysAreForgottenAfterTheirWindow(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	once := func(key, payload string) store.Accepted {
		t.Helper()
		accepted, err := d.EnqueueOnce(t.Context(), orders,
			[]store.KeyedMessages{{Key: key, Messages: []store.NewMessage{{Payload: []byte(payload)}}}})
		if err != nil {
			t.Fatalf("enqueue once: %v", err)
		}
		return accepted[0]
	}
	once("a", "x")
	once("b", "x")
	d.exec(t, "UPDATE deadletter.enqueue_key SET accepted_at = accepted_at - $1::interval", store.KeyWindow)
	if once("a", "another").Before {
		t.Fatal("a key is remembered beyond its window")
	}
	d.retain(t, 10)
	if n := d.count(t, "SELECT count(*)::int FROM deadletter.enqueue_key"); n != 1 {
		t.Fatalf("%d keys are left, want the one taken anew", n)
	}
	if !once("a", "another").Before {
		t.Fatal("the key taken anew is forgotten")
	}
}

func TestAKeyOutlivesItsMessage(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	settings := message.DefaultSettings()
	settings.Retention.Succeeded = 0
	d.declare(t, orders, settings)
	requests := []store.KeyedMessages{{Key: "a", Messages: []store.NewMessage{{Payload: []byte("x")}}}}
	if _, err := d.EnqueueOnce(t.Context(), orders, requests); err != nil {
		t.Fatalf("enqueue once: %v", err)
	}
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	if _, err := d.Succeed(t.Context(), orders, refs(held)); err != nil {
		t.Fatalf("succeed: %v", err)
	}
	d.retain(t, 10)
	if _, err := d.EnqueueOnce(t.Context(), orders, requests); !errors.Is(err, store.ErrNoLongerKept) {
		t.Fatalf("a repetition after the message has gone: %v", err)
	}
}

// TestTheTraceIsNotTheMessage: who sends a message again does so in another trace, whose context is in the headers.
func TestTheTraceIsNotTheMessage(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	once := func(headers ...message.Header) (store.Accepted, error) {
		accepted, err := d.EnqueueOnce(t.Context(), orders, []store.KeyedMessages{{
			Key: "a", Messages: []store.NewMessage{{Payload: []byte("x"), Headers: headers}},
		}})
		if err != nil {
			return store.Accepted{}, err
		}
		return accepted[0], nil
	}
	tenant := message.Header{Name: "tenant", Value: "acme"}
	first, err := once(tenant, message.Header{Name: "traceparent", Value: "1"})
	if err != nil {
		t.Fatalf("enqueue once: %v", err)
	}
	again, err := once(
		message.Header{Name: "traceparent", Value: "2"}, tenant, message.Header{Name: "tracestate", Value: "3"})
	if err != nil || !again.Before || again.Messages[0].ID != first.Messages[0].ID {
		t.Fatalf("in another trace: %+v, %v", again, err)
	}
	if got := again.Messages[0].Headers; len(got) != 2 || got[1].Value != "1" {
		t.Errorf("the headers that were kept are %v", got)
	}
	reused := new(store.KeyReusedError)
	if _, err := once(message.Header{Name: "Traceparent", Value: "1"}, tenant); !errors.As(err, &reused) {
		t.Errorf("a header of another name counts, and the error is %v", err)
	}
}
