package queueapi_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

func TestConcurrencyLimit(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	hooks := &hookedBackend{beforeGet: func() error {
		entered <- struct{}{}
		<-leave
		return nil
	}}
	s := newServer(t, withHooks(hooks), func(options *queueapi.Options, _ *store.Options) {
		options.Limits.MaxConcurrentRequests = 1
		options.Limits.MaxLongPolls = 1
	})
	first := make(chan int)
	go func() { first <- s.do(http.MethodGet, "/queues/orders/messages/1", nil).status }()
	<-entered
	answer := s.do(http.MethodGet, "/queues/orders", nil)
	answer.problem(503, "overloaded")
	if answer.header.Get("Retry-After") == "" {
		t.Error("an overloaded server does not say when to retry")
	}
	s.do(http.MethodGet, "/healthz", nil).want(200)
	s.do(http.MethodGet, "/readyz", nil).want(200)
	close(leave)
	if status := <-first; status != 404 {
		t.Errorf("the request that had the slot answers %d", status)
	}
	// A long poll that waits leaves the slot to others, and has a limit of its own.
	waiting := s.poll(t.Context(), "orders", `{"wait_seconds":20}`)
	s.awaitPolls(1)
	s.eventually("the limit of long polls", func() bool {
		answer := s.do(http.MethodPost, "/queues/orders/claim", `{"wait_seconds":1}`)
		return answer.status == 503
	})
	s.eventually("the long poll to leave its slot", func() bool {
		return s.do(http.MethodPost, "/queues/orders/messages", payloadOf("x")).status == 201
	})
	if got := <-waiting; !got.claimed.Claimed {
		t.Errorf("the long poll answers %+v", got)
	}
}

func TestPanicBecomesAProblem(t *testing.T) {
	t.Parallel()
	s := newServer(t, withHooks(&hookedBackend{beforeGet: func() error { panic("secret cause") }}))
	answer := s.do(http.MethodGet, "/queues/orders/messages/1", nil)
	p := answer.problem(500, "internal")
	if strings.Contains(string(answer.body), "secret") || strings.Contains(string(answer.body), ".go") {
		t.Errorf("the panic leaves the server: %s", answer.body)
	}
	if !contains(s.logs.String(), "secret cause", "hooked_test.go", p.RequestID) {
		t.Error("the panic is not in the log under its request id")
	}
	s.do(http.MethodGet, "/queues", nil).want(200)
}

func TestUnknownErrorsBecomeAProblem(t *testing.T) {
	t.Parallel()
	s := newServer(t, withHooks(&hookedBackend{beforeGet: func() error { return errors.New("secret cause") }}))
	answer := s.do(http.MethodGet, "/queues/orders/messages/1", nil)
	p := answer.problem(500, "internal")
	if strings.Contains(string(answer.body), "secret") || !contains(s.logs.String(), "secret cause", p.RequestID) {
		t.Errorf("answered %s", answer.body)
	}
}

func TestDatabaseThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newServerOn(t, "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	s.do(http.MethodGet, "/healthz", nil).want(200)
	answer := s.do(http.MethodGet, "/readyz", nil)
	answer.problem(503, "unavailable")
	for _, route := range postRoutes() {
		answer := s.do(http.MethodPost, routePath("orders", route, 1), validBody(route))
		answer.problem(503, "unavailable")
		if answer.header.Get("Retry-After") == "" {
			t.Errorf("%s does not say when to retry", route)
		}
	}
	for _, route := range getRoutes() {
		s.do(http.MethodGet, routePath("orders", route, 1), nil).problem(503, "unavailable")
	}
}

func TestDatabaseThatGoesAway(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	s.store.Close()
	s.do(http.MethodGet, "/queues/orders/messages", nil).want(500)
}

func TestRequestsBeforeTheSchemaIsKnown(t *testing.T) {
	t.Parallel()
	s := newUncheckedServer(t)
	s.do(http.MethodPost, "/queues/orders/messages", `{"payload":"x"}`).problem(503, "unavailable")
	s.do(http.MethodGet, "/readyz", nil).want(200)
	s.enqueue("orders", payloadOf("x"))
}

func TestReadinessSeesAReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	s := newUncheckedServer(t, func(options *queueapi.Options, _ *store.Options) {
		options.Now = func() time.Time { return time.Unix(clock.Add(10), 0) }
	})
	const alter = `BEGIN READ WRITE; DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {}', current_database());
	END $$; COMMIT`
	s.exec(strings.Replace(alter, "{}", "on", 1))
	p := s.do(http.MethodGet, "/readyz", nil).problem(503, "unavailable")
	if !contains(p.Detail, "takes no changes") {
		t.Errorf("detail %q does not say what is wrong", p.Detail)
	}
	s.exec(strings.Replace(alter, "{}", "off", 1))
	s.do(http.MethodGet, "/readyz", nil).want(200)
	s.enqueue("orders", payloadOf("x"))
}

func TestReadinessSeesAnotherSchemaVersion(t *testing.T) {
	t.Parallel()
	s := newUncheckedServer(t)
	s.exec("DELETE FROM deadletter.schema_migration")
	p := s.do(http.MethodGet, "/readyz", nil).problem(503, "unavailable")
	if !contains(p.Detail, "deadletter migrate") {
		t.Errorf("detail %q does not say what to run", p.Detail)
	}
}
