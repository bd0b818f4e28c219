package queueapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// claimAll claims everything that is ready and returns the payloads in order.
func (s *server) claimAll(queue string) []string {
	s.t.Helper()
	got := decode[claimed](s.do(http.MethodPost, queuePath(queue)+"/claim", `{"max":1000}`).want(http.StatusOK))
	payloads := []string{}
	for _, m := range got.Messages {
		payloads = append(payloads, m.Payload)
	}
	return payloads
}

// wantClaims fails the test unless one claim gets exactly these payloads, in order.
func (s *server) wantClaims(queue string, payloads ...string) {
	s.t.Helper()
	if got := s.claimAll(queue); !slices.Equal(got, payloads) {
		s.t.Fatalf("claimed %v, want %v", got, payloads)
	}
}

// enqueueIn puts messages of one group into a queue, with these payloads.
func (s *server) enqueueIn(queue, group string, payloads ...string) []msg {
	s.t.Helper()
	var stored []msg
	for _, payload := range payloads {
		stored = append(stored, s.enqueue(queue, map[string]any{"payload": payload, "group_key": group}))
	}
	return stored
}

// settle calls an action on a message that is being processed, or dead.
func (s *server) settle(m msg, action string, body any) msg {
	s.t.Helper()
	return decode[msg](s.do(http.MethodPost, itemPath(m.Queue, m.ID)+"/"+action, body).want(http.StatusOK))
}

const permanent = `{"retryable":false}`

func TestWishesOfAMessageAreChecked(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tests := map[string]map[string]string{
		"priority": {
			`-1`: "out_of_range", `4`: "out_of_range", `1.5`: "wrong_type", `"1"`: "wrong_type", `null`: "wrong_type",
			`true`: "wrong_type", `[1]`: "wrong_type", `{}`: "wrong_type", `1e30`: "wrong_type",
		},
		"ttl_seconds": {
			`0`: "out_of_range", `-1`: "out_of_range", `31536001`: "out_of_range", `0.5`: "wrong_type", `"60"`: "wrong_type",
			`null`: "wrong_type", `false`: "wrong_type", `[]`: "wrong_type", `{}`: "wrong_type",
		},
		"group_key": {
			`""`: "invalid_value", `"a\u0000"`: "invalid_value", `"\ud800"`: "invalid_encoding", `7`: "wrong_type",
			`null`: "wrong_type", `true`: "wrong_type", `["a"]`: "wrong_type", `{}`: "wrong_type",
			`"` + strings.Repeat("k", 256) + `"`: "too_long", `"` + strings.Repeat("ü", 128) + `"`: "too_long",
		},
	}
	for field, values := range tests {
		for value, code := range values {
			one := fmt.Sprintf(`{"payload":"x",%q:%s}`, field, value)
			s.do(http.MethodPost, messagesPath("orders"), one).refuses(t, field+":"+code)
			batch := fmt.Sprintf(`{"messages":[{"payload":"x"},%s]}`, one)
			s.do(http.MethodPost, messagesPath("orders"), batch).refuses(t, "messages[1]."+field+":"+code)
		}
	}
	s.do(http.MethodGet, queuePath("orders"), nil).problem(http.StatusNotFound, "not-found")
}

func TestWishesOfAMessageAreShown(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	plain := s.enqueue("orders", payloadOf("x"))
	if plain.Priority != 0 || plain.GroupKey != nil || plain.ExpiresAt != nil {
		t.Errorf("a message without wishes is shown as %+v", plain)
	}
	for _, key := range []string{"k", "\u0001 \"ключ\" e\u0301", strings.Repeat("ü", 127) + "k"} {
		wished := s.enqueue("wishes", map[string]any{
			"payload": "x", "priority": 3, "group_key": key, "ttl_seconds": 31536000,
		})
		held := s.claim("wishes")
		views := []msg{wished, held, decode[msg](s.do(http.MethodGet, itemPath("wishes", held.ID), nil).want(200))}
		views = append(views, s.settle(held, "fail", permanent))
		for _, view := range views {
			if view.Priority != 3 || view.GroupKey == nil || *view.GroupKey != key {
				t.Errorf("priority 3 and group key %q are shown as %+v", key, view)
			}
		}
		l := decode[struct {
			Priority int
			GroupKey string `json:"group_key"`
		}](s.do(http.MethodGet, letterPath("wishes", held.ID), nil).want(200))
		if l.Priority != 3 || l.GroupKey != key {
			t.Errorf("the dead letter of priority 3 and group key %q shows %+v", key, l)
		}
	}
}

func TestWishesBelongToADeduplicationID(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const first = `{"payload":"x","priority":1,"group_key":"k","ttl_seconds":60,"deduplication_id":"1"}`
	m := s.enqueue("orders", first)
	again := decode[msg](s.do(http.MethodPost, messagesPath("orders"), first).want(http.StatusOK))
	if again.ID != m.ID || again.Priority != 1 || *again.GroupKey != "k" || *again.ExpiresAt != *m.ExpiresAt {
		t.Errorf("the repetition is shown as %+v", again)
	}
	for _, other := range []string{
		strings.Replace(first, `"priority":1`, `"priority":2`, 1), strings.Replace(first, `"k"`, `"l"`, 1),
		strings.Replace(first, "60", "61", 1), `{"payload":"x","deduplication_id":"1"}`,
	} {
		s.do(http.MethodPost, messagesPath("orders"), other).refuses(t, "deduplication_id:key_reused")
	}
}

func TestHighestPriorityIsClaimedFirst(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	send := func(payload, more string) { s.enqueue("orders", `{"payload":"`+payload+`"`+more+`}`) }
	send("default", "")
	send("low", `,"priority":0`)
	send("middle", `,"priority":1`)
	send("delayed", `,"priority":3,"delay_seconds":60`) // Counts when it is ready.
	send("high", `,"priority":3`)
	send("higher than middle", `,"priority":2`)
	send("high, later", `,"priority":3`)
	if m := s.claim("orders"); m.Payload != "high" {
		t.Errorf("claimed %q first", m.Payload)
	}
	send("last, and highest", `,"priority":3`) // Whoever waits is passed over as long as there are such.
	s.wantClaims("orders", "high, later", "last, and highest", "higher than middle", "middle", "default", "low")
}

func TestGroupIsHandedOutOneByOne(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueueIn("orders", "a", "a1", "a2", "a3")
	s.enqueueIn("orders", "b", "b1")
	s.enqueue("orders", payloadOf("free"))
	s.enqueueIn("other", "a", "of another queue")
	first := s.claim("orders")
	s.wantClaims("orders", "b1", "free")
	s.wantClaims("other", "of another queue")
	s.wantClaims("orders")
	s.settle(first, "succeed", nil)
	s.wantClaims("orders", "a2")
}

func TestFailingHeadHoldsItsGroupUntilItDies(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	head := s.enqueue("orders", `{"payload":"head","group_key":"a","max_retries":2}`)
	s.enqueueIn("orders", "a", "next")
	s.settle(s.claim("orders"), "fail", nil)
	s.wantClaims("orders") // The head waits for its retry, and the next for the head.
	s.makeReady("orders", head.ID)
	if dead := s.settle(s.claim("orders"), "fail", nil); dead.ID != head.ID || dead.Status != "dead" {
		t.Fatalf("after the second failure: %+v", dead)
	}
	s.wantClaims("orders", "next")
}

func TestDelayedHeadHoldsItsGroup(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	head := s.enqueue("orders", `{"payload":"head","group_key":"a","delay_seconds":60}`)
	s.enqueueIn("orders", "a", "next")
	s.wantClaims("orders")
	s.makeReady("orders", head.ID)
	s.settle(s.claim("orders"), "release", `{"delay_seconds":60}`)
	s.wantClaims("orders")
	s.makeReady("orders", head.ID)
	s.wantClaims("orders", "head")
}

func TestReplayedLetterQueuesUpBehindTheOneAtWork(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueueIn("orders", "a", "1", "2", "3")
	dead := s.settle(s.claim("orders"), "fail", permanent)
	atWork := s.claim("orders")
	s.settle(dead, "replay", nil)
	s.wantClaims("orders")
	s.settle(atWork, "succeed", nil)
	back := s.claim("orders")
	if back.ID != dead.ID {
		t.Fatalf("claimed %q after the one at work, want the replayed one, whose id is lower", back.Payload)
	}
	s.settle(back, "succeed", nil)
	s.wantClaims("orders", "3")
}

func TestPriorityCountsAmongTheFirstsOfGroups(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	send := func(payload, group string, priority int) {
		s.enqueue("orders", map[string]any{"payload": payload, "group_key": group, "priority": priority})
	}
	send("a1", "a", 0)
	send("a2", "a", 3) // Does not pass the one before it.
	send("b1", "b", 1)
	send("c1", "c", 2)
	got := decode[claimed](s.do(http.MethodPost, queuePath("orders")+"/claim", `{"max":10}`).want(http.StatusOK))
	var order []string
	for _, m := range got.Messages {
		order = append(order, m.Payload)
		s.settle(m, "succeed", nil)
	}
	if diff := cmp.Diff([]string{"c1", "b1", "a1"}, order); diff != "" {
		t.Error(diff)
	}
	s.wantClaims("orders", "a2")
}

// TestLongPollIsWokenByTheEndOfTheOneBefore: whoever finishes a message of a group lets the next one go at once.
func TestLongPollIsWokenByTheEndOfTheOneBefore(t *testing.T) {
	t.Parallel()
	s := newServer(t, onlyWakeUps)
	const queue = "orders"
	batch := func(action, more string) func(msg) {
		return func(m msg) {
			body := fmt.Sprintf(`{"items":[{"id":%d,"lease_token":%q%s}]}`, m.ID, m.LeaseToken, more)
			answer := decode[batchResults](s.do(http.MethodPost, queuePath(queue)+"/"+action, body).want(http.StatusOK))
			if answer.statuses() != "200" {
				t.Errorf("%s answers %s", action, answer.statuses())
			}
		}
	}
	ends := map[string]func(msg){
		"succeed":          func(m msg) { s.settle(m, "succeed", nil) },
		"death":            func(m msg) { s.settle(m, "fail", permanent) },
		"succeed in batch": batch("succeed", ""),
		"death in batch":   batch("fail", `,"retryable":false`),
	}
	for name, end := range ends {
		s.enqueueIn(queue, name, "head", "next")
		head := s.claim(queue)
		waiting := s.poll(t.Context(), queue, `{"wait_seconds":20}`)
		s.awaitPolls(1)
		end(head)
		got := <-waiting
		if got.err != nil || !got.claimed.Claimed || got.claimed.Message.Payload != "next" {
			t.Fatalf("%s: the long poll answers %+v", name, got)
		}
		s.settle(*got.claimed.Message, "succeed", nil)
	}
}
