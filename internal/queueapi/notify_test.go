package queueapi_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

// replicas are two servers on one database that wake each other's long polls, and have put off their backstops for
// days. end stops the loops and returns when they have ended.
func replicas(t *testing.T) (one, two *server, end func()) {
	t.Helper()
	late := func(options *queueapi.Options, _ *store.Options) { options.Jitter = func() float64 { return 1e6 } }
	one = newServer(t, late)
	two = newServerOn(t, one.dbURL, late)
	if err := two.api.CheckSchema(t.Context()); err != nil {
		t.Fatalf("check schema: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	for _, s := range []*server{one, two} {
		go func() { s.api.ShareWakeUps(ctx); done <- struct{}{} }()
	}
	end = func() {
		stop()
		<-done
		<-done
	}
	t.Cleanup(stop)
	one.awaitListeners(2)
	return one, two, end
}

const listeners = ` FROM pg_stat_activity
	WHERE datname = current_database() AND state = 'idle' AND query LIKE 'LISTEN %'`

// query runs a statement that returns a number.
func (s *server) query(sql string) int {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.dbURL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(s.t.Context())
	var n int
	if err := conn.QueryRow(s.t.Context(), sql).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *server) awaitListeners(n int) {
	s.t.Helper()
	s.eventually("sessions to listen", func() bool { return s.query("SELECT count(*)"+listeners) == n })
}

// wokenBy enqueues at one server while a claim waits at another.
func (s *server) wokenBy(other *server, queue string) {
	s.t.Helper()
	waiting := s.poll(s.t.Context(), queue, `{"wait_seconds":20}`)
	s.awaitPolls(1)
	other.enqueue(queue, payloadOf("x"))
	if got := <-waiting; got.err != nil || !got.claimed.Claimed {
		s.t.Errorf("the long poll at another replica answers %+v", got)
	}
	s.awaitPolls(0)
}

func TestNotifyWakesALongPollAtAnotherReplica(t *testing.T) {
	t.Parallel()
	one, two, _ := replicas(t)
	two.wokenBy(one, "orders")
	one.wokenBy(two, "refunds")
}

func TestNotifyListenersComeBackAndEnd(t *testing.T) {
	t.Parallel()
	one, two, end := replicas(t)
	if n := one.query("SELECT count(pg_terminate_backend(pid, 10000))" + listeners); n != 2 {
		t.Fatalf("%d listeners were ended", n)
	}
	one.awaitListeners(2)
	two.wokenBy(one, "orders")
	if !contains(two.logs.String(), "listening for ready queues failed", "listening for ready queues recovered") {
		t.Error("the log does not tell of it")
	}
	end()
	one.awaitListeners(0)
}
