package queueapi_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
)

func withLength(length int64, overflow message.Overflow) func(*message.Settings) {
	return func(settings *message.Settings) { settings.MaxLength, settings.Overflow = length, overflow }
}

// batchOf is the body of a batch of messages with these payloads.
func batchOf(payloads ...string) map[string]any {
	var messages []any
	for _, payload := range payloads {
		messages = append(messages, payloadOf(payload))
	}
	return map[string]any{"messages": messages}
}

// wantFull fails the test unless a full queue refuses the messages and says when to try again.
func (s *server) wantFull(queue string, body any) {
	s.t.Helper()
	answer := s.do(http.MethodPost, messagesPath(queue), body)
	answer.problem(http.StatusTooManyRequests, "queue-full")
	after := answer.header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err != nil || seconds < 1 || seconds > 10 {
		s.t.Errorf("Retry-After is %q, want a small number of seconds", after)
	}
}

type depth struct{ Pending, Processing, Succeeded, Dead int64 }

func (s *server) wantDepth(queue string, want depth) {
	s.t.Helper()
	got := decode[struct{ Depth depth }](s.do(http.MethodGet, queuePath(queue), nil).want(http.StatusOK)).Depth
	if got != want {
		s.t.Fatalf("depth is %+v, want %+v", got, want)
	}
}

func TestFullQueueRejectsWhatItHasNoRoomFor(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.declare("orders", withLength(3, message.OverflowReject))
	s.enqueue("orders", payloadOf("1"))
	held := s.claim("orders") // Counts as well as what is pending.
	s.enqueue("orders", `{"payload":"2","delay_seconds":60}`)
	s.wantFull("orders", batchOf("3", "4")) // One of them would fit.
	s.wantDepth("orders", depth{Pending: 1, Processing: 1})
	s.enqueue("orders", payloadOf("3"))
	const keyed = `{"payload":"4","deduplication_id":"k"}`
	for _, body := range []string{
		`{"payload":"4"}`, `{"payload":"4","priority":3}`, `{"payload":"4","group_key":"a"}`, `{"payload":"4","ttl_seconds":60}`,
		`{"payload":"4","delay_seconds":1}`, keyed,
	} {
		s.wantFull("orders", body)
	}
	s.wantDepth("orders", depth{Pending: 2, Processing: 1})
	s.settle(held, "succeed", nil)
	s.enqueue("orders", keyed) // The refusal is not remembered under the key.
	s.wantDepth("orders", depth{Pending: 3, Succeeded: 1})
}

func TestFullQueueKnowsWhatItHasAccepted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.declare("orders", withLength(1, message.OverflowReject))
	const once = `{"payload":"1","deduplication_id":"k"}`
	m := s.enqueue("orders", once)
	if again := decode[msg](s.do(http.MethodPost, messagesPath("orders"), once).want(http.StatusOK)); again.ID != m.ID {
		t.Errorf("the repetition answers message %d, want %d", again.ID, m.ID)
	}
}

// TestFullQueueTakesBackWhatItHasAccepted: retries and replays are never refused.
func TestFullQueueTakesBackWhatItHasAccepted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.declare("orders", withLength(2, message.OverflowReject))
	dead := s.dead("orders", payloadOf("1"), permanent)
	s.enqueue("orders", payloadOf("2"))
	s.enqueue("orders", payloadOf("3"))
	s.wantFull("orders", payloadOf("4"))
	failed := s.settle(s.claim("orders"), "fail", nil)
	released := s.settle(s.claim("orders"), "release", nil)
	back := s.settle(dead, "replay", nil)
	for _, m := range []msg{failed, released, back} {
		if m.Status != "pending" {
			t.Errorf("message %d is %s", m.ID, m.Status)
		}
	}
	s.wantDepth("orders", depth{Pending: 3})
	s.wantFull("orders", payloadOf("4"))
}

func TestFullQueueMakesDeadLetters(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.declare("orders", withLength(2, message.OverflowDeadLetter))
	s.enqueue("orders", payloadOf("fits"))
	answer := s.do(http.MethodPost, messagesPath("orders"), batchOf("a", "b")).want(http.StatusCreated)
	over := decode[msgs](answer).Messages
	s.wantDepth("orders", depth{Pending: 1, Dead: 2}) // The batch as a whole, though one of them would fit.
	s.enqueue("orders", payloadOf("fits, too"))
	wished := s.enqueue("orders", `{"payload":"c","group_key":"k","priority":2,"ttl_seconds":60,"delay_seconds":5}`)
	keyed := s.enqueue("orders", `{"payload":"d","deduplication_id":"k"}`)
	for _, m := range append(over, wished, keyed) {
		l := decode[letter](s.do(http.MethodGet, letterPath("orders", m.ID), nil).want(http.StatusOK))
		if m.Status != "dead" || m.LastFailure.Category != "OVERFLOW" || m.LastFailure.ErrorClass != "QueueFull" ||
			m.ExpiresAt != nil || m.RetryAfter != nil || l.Envelope.FailureCategory != "OVERFLOW" ||
			l.OriginalBody != m.Payload {
			t.Errorf("the answer shows %+v, the dead letter is %+v", m, l)
		}
	}
	s.wantDepth("orders", depth{Pending: 2, Dead: 4})
	back := s.settle(wished, "replay", nil)
	if back.Priority != 2 || *back.GroupKey != "k" {
		t.Errorf("replayed without its wishes: %+v", back)
	}
	wantExpiry(t, back, back.UpdatedAt, time.Minute)
	s.wantClaims("orders", "c", "fits", "fits, too")
}

func TestQueueShowsItsLimits(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	limits := func() map[string]any {
		shown := decode[struct{ Settings map[string]any }](s.do(http.MethodGet, queuePath("orders"), nil).want(200)).Settings
		found := map[string]any{}
		for _, name := range []string{"message_ttl_seconds", "max_length", "overflow"} {
			value, given := shown[name]
			if !given {
				t.Errorf("settings do not show %s", name)
			}
			found[name] = value
		}
		return found
	}
	s.enqueue("orders", payloadOf("x"))
	want := map[string]any{"message_ttl_seconds": nil, "max_length": nil, "overflow": "Reject"}
	if diff := cmp.Diff(want, limits()); diff != "" {
		t.Errorf("of a queue without limits (-want +got):\n%s", diff)
	}
	s.declare("orders", func(settings *message.Settings) {
		withTTL(90 * time.Second)(settings)
		withLength(1<<40, message.OverflowDeadLetter)(settings)
	})
	want = map[string]any{"message_ttl_seconds": 90.0, "max_length": float64(1 << 40), "overflow": "DeadLetter"}
	if diff := cmp.Diff(want, limits()); diff != "" {
		t.Errorf("of a queue with limits (-want +got):\n%s", diff)
	}
}
