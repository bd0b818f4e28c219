package queueapi_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/queueapi/auth"
	"deadletter.dev/deadletter/internal/store"
)

// tokenGuard answers by the token, and remembers what it was asked.
type tokenGuard struct {
	mu    sync.Mutex
	asked []auth.Access
}

// Authorize implements queueapi.Guard.
func (g *tokenGuard) Authorize(_ context.Context, token string, access auth.Access) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, access)
	switch token {
	case "good":
		return nil
	case "weak":
		return auth.ErrForbidden
	case "undecided":
		return errors.New("secret cause")
	default:
		return auth.ErrUnauthenticated
	}
}

func withGuard(guard queueapi.Guard) option {
	return func(options *queueapi.Options, _ *store.Options) { options.Guard = guard }
}

func TestEveryQueueRouteIsGuarded(t *testing.T) {
	t.Parallel()
	s := newServer(t, withGuard(new(tokenGuard)))
	ask := func(method, path, authorization string) *response {
		s.headers = http.Header{}
		if authorization != "" {
			s.headers.Set("Authorization", authorization)
		}
		return s.do(method, path, nil)
	}
	routes := map[string][]string{http.MethodGet: getRoutes(), http.MethodPost: postRoutes()}
	for method, paths := range routes {
		for _, route := range paths {
			path := routePath("orders", route, 1)
			for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer bad", "Basic good", "good"} {
				answer := ask(method, path, authorization)
				answer.problem(http.StatusUnauthorized, "unauthenticated")
				if answer.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s does not say how to authenticate", method, path)
				}
			}
			ask(method, path, "Bearer weak").problem(http.StatusForbidden, "forbidden")
			ask(method, path, "Bearer undecided").problem(http.StatusServiceUnavailable, "unavailable")
			if got := ask(method, path, "bearer good").status; got == 401 || got == 403 || got >= 500 {
				t.Errorf("%s %s with a good token answers %d", method, path, got)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json"} {
		ask(http.MethodGet, path, "").want(http.StatusOK)
	}
}

func TestWhatTheGuardIsAsked(t *testing.T) {
	t.Parallel()
	guard := new(tokenGuard)
	s := newServer(t, withGuard(guard))
	s.headers = http.Header{"Authorization": {"Bearer good"}}
	s.do(http.MethodGet, "/queues", nil).want(200)
	s.do(http.MethodGet, "/queues/e%CC%81", nil).want(404)
	s.enqueue("a/b", payloadOf("x"))
	m := s.claim("a/b")
	s.do(http.MethodPost, itemPath("a/b", m.ID)+"/fail", `{"retryable":false}`).want(200)
	s.do(http.MethodGet, "/queues/a%2Fb/dead-letters", nil).want(200)
	s.do(http.MethodGet, letterPath("a/b", m.ID), nil).want(200)
	s.do(http.MethodPost, itemPath("a/b", m.ID)+"/replay", nil).want(200)
	want := []auth.Access{
		{Verb: "list"},
		{Verb: "get", Queue: "é"},
		{Verb: "create", Subresource: "messages", Queue: "a/b"},
		{Verb: "get", Subresource: "messages", Queue: "a/b"},
		{Verb: "update", Subresource: "messages", Queue: "a/b"},
		{Verb: "list", Subresource: "deadletters", Queue: "a/b"},
		{Verb: "get", Subresource: "deadletters", Queue: "a/b"},
		{Verb: "update", Subresource: "deadletters", Queue: "a/b"},
	}
	if diff := cmp.Diff(want, guard.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}
