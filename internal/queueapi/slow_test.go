package queueapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

// slowSender is a request whose body does not come to its end.
type slowSender struct {
	t    *testing.T
	conn net.Conn
}

// sendSlowly starts a request that announces so much more of a body than it sends that the body must keep coming.
func (s *server) sendSlowly(method, path, body string) *slowSender {
	s.t.Helper()
	const missing = 8 << 10
	return s.announce(method, path, len(body)+missing, body)
}

// announce starts a request that announces a body of this length, and sends the start of it.
func (s *server) announce(method, path string, length int, body string) *slowSender {
	s.t.Helper()
	conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	const request = "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
	if _, err := fmt.Fprintf(conn, request, method, path, length, body); err != nil {
		s.t.Fatal(err)
	}
	return &slowSender{t: s.t, conn: conn}
}

// answer is what the server says to it in the end. It must close the connection, on which the rest of the body would
// come next.
func (s *slowSender) answer() *response {
	s.t.Helper()
	from := bufio.NewReader(s.conn)
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if !answer.Close {
		s.t.Error("the connection of a body that did not come is kept")
	}
	return read(s.t, answer)
}

// awaitInFlight returns once n requests have arrived and are not answered, besides the one that asks.
func (s *server) awaitInFlight(n int) {
	s.t.Helper()
	want := fmt.Sprintf("\ndeadletter_requests_in_flight %d\n", n+1)
	s.eventually("requests in flight to be "+want, func() bool {
		return contains(string(s.do(http.MethodGet, "/metrics", nil).body), want)
	})
}

func TestSlowSendersTakeNoSlots(t *testing.T) {
	t.Parallel()
	const limit, senders = 2, 4
	s := newServer(t, func(options *queueapi.Options, _ *store.Options) {
		options.Limits.MaxConcurrentRequests = limit
	})
	m := s.enqueue("orders", payloadOf("x"))
	count := 0
	for range senders {
		for _, route := range postRoutes() {
			s.sendSlowly(http.MethodPost, routePath("orders", route, m.ID), "{")
			s.announce(http.MethodPost, routePath("orders", route, m.ID), 1<<10, "{")
			count += 2
		}
		for _, route := range getRoutes() {
			s.sendSlowly(http.MethodGet, routePath("orders", route, m.ID), "{").answer()
		}
	}
	s.awaitInFlight(count)
	s.enqueue("orders", payloadOf("y"))
	s.claim("orders")
	s.do(http.MethodGet, "/queues", nil).want(http.StatusOK)
}

func TestBodiesMustKeepComing(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(options *queueapi.Options, _ *store.Options) {
		options.Limits.BodyTimeout = 50 * time.Millisecond
	})
	for _, body := range []string{"", "{", `{"payload":"` + strings.Repeat("x", 300<<10)} {
		answer := s.sendSlowly(http.MethodPost, "/queues/orders/messages", body).answer()
		answer.problem(http.StatusRequestTimeout, "request-timeout")
	}
	s.eventually("the budget to be given back", func() bool { return s.api.HeldBodyBytes() == 0 })
	// The time for the body is not the time for the answer.
	padding := strings.Repeat(" ", 8<<10)
	if got := <-s.poll(t.Context(), "orders", `{"wait_seconds":1}`+padding); got.status != 200 || got.after < time.Second {
		t.Errorf("a long poll behind a short time for bodies answers %+v", got)
	}
}

// TestTheServerEndsSmallBodies: they have no deadline but the server's, and nothing that they read is counted.
func TestTheServerEndsSmallBodies(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(options *queueapi.Options, _ *store.Options) {
		options.Limits.BodyTimeout = time.Millisecond
	})
	web := httptest.NewUnstartedServer(s.api)
	web.Config.ReadTimeout = time.Second
	web.Start()
	t.Cleanup(web.Close)
	s.url = web.URL
	for _, length := range []int{1, 4 << 10} {
		start := time.Now()
		answer := s.announce(http.MethodPost, "/queues/orders/messages", length, "").answer()
		answer.problem(http.StatusRequestTimeout, "request-timeout")
		if took := time.Since(start); took < 900*time.Millisecond {
			t.Errorf("a body of %d bytes was given up after %s", length, took)
		}
	}
	answer := s.announce(http.MethodPost, "/queues/orders/messages", 4<<10+1, "").answer()
	answer.problem(http.StatusRequestTimeout, "request-timeout")
}

// TestHeldBodiesDoNotStarveSmallOnes: senders that stop with the whole budget taken are sent away in time, and small
// bodies are read meanwhile.
func TestHeldBodiesDoNotStarveSmallOnes(t *testing.T) {
	t.Parallel()
	const budget = 64 << 10
	s := newServer(t, func(options *queueapi.Options, _ *store.Options) {
		options.Limits.BodyTimeout = 2 * time.Second
	})
	s.api.SetBodyBudget(budget)
	large := `{"payload":"` + strings.Repeat("x", budget) + `"}`
	holder := s.sendSlowly(http.MethodPost, "/queues/orders/messages", large[:budget])
	s.eventually("the budget to be taken", func() bool { return s.api.HeldBodyBytes() > budget/2 })
	s.do(http.MethodPost, "/queues/orders/messages", large).problem(http.StatusServiceUnavailable, "overloaded")
	s.enqueue("orders", payloadOf("x"))
	s.claim("orders")
	holder.answer().problem(http.StatusRequestTimeout, "request-timeout")
	s.do(http.MethodPost, "/queues/orders/messages", large[:budget/2]+`"}`).want(http.StatusCreated)
}
