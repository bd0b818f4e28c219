package queueapi_test

import (
	"net/http"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
	"deadletter.dev/deadletter/internal/store/storetest"
)

// declare gives a queue settings that differ from the defaults.
func (s *server) declare(queue string, change func(*message.Settings)) {
	s.t.Helper()
	settings := message.DefaultSettings()
	change(&settings)
	owner := store.Owner{Namespace: "shop", Name: queue}
	if _, err := s.store.DeclareQueue(s.t.Context(), queue, owner, settings); err != nil {
		s.t.Fatal(err)
	}
}

func withTTL(ttl time.Duration) func(*message.Settings) {
	return func(settings *message.Settings) { settings.MessageTTL = ttl }
}

// elapse moves everything stored into the past.
func (s *server) elapse(d time.Duration) {
	s.t.Helper()
	for _, statement := range storetest.ElapseSQL(schema) {
		s.exec(statement, d)
	}
}

// expire does what the maintenance loops do.
func (s *server) expire(want int) {
	s.t.Helper()
	if err := s.store.FoldDepth(s.t.Context()); err != nil { // Queues are looked at by their depth.
		s.t.Fatal(err)
	}
	if n, err := s.store.ExpireMessages(s.t.Context(), 1000); err != nil || n != want {
		s.t.Fatalf("%d messages expired, want %d: %v", n, want, err)
	}
}

func (s *server) get(m msg) msg {
	s.t.Helper()
	return decode[msg](s.do(http.MethodGet, itemPath(m.Queue, m.ID), nil).want(http.StatusOK))
}

// wantExpiry fails the test unless a message expires so long after a time of its own.
func wantExpiry(t *testing.T, m msg, from string, after time.Duration) {
	t.Helper()
	if m.ExpiresAt == nil {
		t.Fatalf("a message that is to expire shows no time: %+v", m)
	}
	if got := instant(t, *m.ExpiresAt).Sub(instant(t, from)); got != after {
		t.Fatalf("the message expires after %s, want %s", got, after)
	}
}

// wantExpired fails the test unless the message is a dead letter because of its age.
func (s *server) wantExpired(m msg) {
	s.t.Helper()
	l := decode[letter](s.do(http.MethodGet, letterPath(m.Queue, m.ID), nil).want(http.StatusOK))
	dead := s.get(m)
	if l.Envelope.FailureCategory != "EXPIRED" || dead.Status != "dead" || dead.LastFailure.Category != "EXPIRED" ||
		dead.LastFailure.ErrorClass != "MessageExpired" || dead.ExpiresAt != nil || dead.RetryAfter != nil {
		s.t.Fatalf("an expired message is %+v, its letter %+v", dead, l.Envelope)
	}
}

func TestTimeToLiveStartsWhenTheMessageIsFirstReady(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m := s.enqueue("orders", `{"payload":"x","ttl_seconds":30}`)
	wantExpiry(t, m, m.CreatedAt, 30*time.Second)
	delayed := s.enqueue("orders", `{"payload":"x","ttl_seconds":30,"delay_seconds":60}`)
	wantExpiry(t, delayed, delayed.CreatedAt, 90*time.Second)
	wantExpiry(t, s.get(delayed), delayed.CreatedAt, 90*time.Second)
	if forever := s.enqueue("orders", payloadOf("x")); forever.ExpiresAt != nil {
		t.Errorf("a message without a time to live expires at %s", *forever.ExpiresAt)
	}
}

func TestQueuesTimeToLiveIsThatOfTheEnqueue(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.declare("orders", withTTL(time.Minute))
	before := s.enqueue("orders", payloadOf("x"))
	wantExpiry(t, before, before.CreatedAt, time.Minute)
	own := s.enqueue("orders", `{"payload":"x","ttl_seconds":7200}`)
	wantExpiry(t, own, own.CreatedAt, 2*time.Hour)
	s.declare("orders", withTTL(time.Hour))
	wantExpiry(t, s.get(before), before.CreatedAt, time.Minute)
	after := s.enqueue("orders", payloadOf("x"))
	wantExpiry(t, after, after.CreatedAt, time.Hour)
	s.declare("orders", withTTL(0))
	if m := s.enqueue("orders", payloadOf("x")); m.ExpiresAt != nil {
		t.Errorf("in a queue without a time to live a message expires at %s", *m.ExpiresAt)
	}
	s.elapse(time.Minute)
	s.expire(1)
	s.wantExpired(before)
}

func TestExpiredMessageIsADeadLetterAndNeverWork(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.declare("orders", withTTL(time.Minute))
	own := s.enqueue("orders", `{"payload":"x","ttl_seconds":30}`)
	queues := s.enqueue("orders", payloadOf("x"))
	s.elapse(time.Hour)
	s.wantClaims("orders") // Whether anybody has looked for expired messages by then or not.
	s.expire(1)            // The claim has found the other one.
	s.wantExpired(own)
	s.wantExpired(queues)
	page := decode[letterPage](s.do(http.MethodGet, queuePath("orders")+"/dead-letters?category=EXPIRED", nil).want(200))
	if page.Count != 2 {
		t.Errorf("%d dead letters of category EXPIRED are listed, want 2", page.Count)
	}
}

func TestMessageThatWaitsForARetryExpires(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", `{"payload":"x","ttl_seconds":60}`)
	failed := s.settle(s.claim("orders"), "fail", `{"error":"boom","category":"EXTERNAL","retry_after_seconds":3600}`)
	wantExpiry(t, failed, failed.CreatedAt, time.Minute)
	s.elapse(time.Minute)
	s.expire(1)
	s.wantExpired(failed)
	l := decode[letter](s.do(http.MethodGet, letterPath("orders", failed.ID), nil).want(200))
	if len(l.Attempts) != 1 || l.Attempts[0].Failure.Reason != "boom" {
		t.Errorf("of the failure before, the letter shows %+v", l.Attempts)
	}
}

func TestMessageAtWorkMayFinishAfterItsTime(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", `{"payload":"x","ttl_seconds":5}`)
	held := s.claim("orders")
	s.elapse(10 * time.Second)
	s.expire(0)
	if done := s.settle(held, "succeed", nil); done.Status != "succeeded" || done.ExpiresAt != nil {
		t.Errorf("finished after its time: %+v", done)
	}
	s.enqueue("orders", `{"payload":"y","ttl_seconds":5}`)
	late := s.claim("orders")
	s.elapse(10 * time.Second)
	s.settle(late, "release", nil)
	s.wantClaims("orders") // Given back after its time, it has expired.
	s.expire(1)
	s.wantExpired(late)
}

func TestReplayStartsTheTimeToLiveAnew(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m := s.enqueue("orders", `{"payload":"x","ttl_seconds":60}`)
	s.elapse(time.Minute)
	s.expire(1)
	s.elapse(24 * time.Hour)
	s.expire(0) // Dead letters do not expire.
	s.wantExpired(m)
	back := s.settle(m, "replay", nil)
	wantExpiry(t, back, back.UpdatedAt, time.Minute)
	if *back.ExpiresAt <= *m.ExpiresAt {
		t.Errorf("the replayed message expires at %s, it did at %s before", *back.ExpiresAt, *m.ExpiresAt)
	}
	s.expire(0)
	s.wantClaims("orders", "x")
}

func TestExpiredHeadLetsItsGroupGo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", `{"payload":"head","group_key":"a","ttl_seconds":60}`)
	s.enqueueIn("orders", "a", "next")
	s.elapse(time.Minute)
	s.expire(1)
	s.wantClaims("orders", "next")
}

// TestServerExpiresMessagesByItself: nobody has to claim or to ask.
func TestServerExpiresMessagesByItself(t *testing.T) {
	t.Parallel()
	p := startProcess(t, queueapi.Config{DatabaseURL: migrated(t)})
	p.awaitReady(t)
	s := &server{t: t, url: p.url}
	m := s.enqueue("orders", `{"payload":"x","ttl_seconds":1}`)
	s.eventually("the message to expire", func() bool { return s.get(m).Status == "dead" })
	s.wantExpired(m)
	// The loop counts what it has done once that is done.
	s.eventually("the message to be counted", func() bool {
		metrics := s.do(http.MethodGet, "/metrics", nil).want(http.StatusOK)
		return contains(string(metrics.body), `deadletter_maintenance_messages_total{kind="message_expired"} 1`)
	})
}
