package queueapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

// postRoutes are the routes that take a body, with {id} for a message.
func postRoutes() []string {
	return []string{
		"messages", "claim", "succeed", "fail", "messages/{id}/succeed", "messages/{id}/fail", "messages/{id}/extend",
		"messages/{id}/release", "messages/{id}/replay",
	}
}

// oneReport is the route whose body is never refused for what it is.
const oneReport = "messages/{id}/fail"

func getRoutes() []string {
	return []string{"", "messages", "messages/{id}", "dead-letters", "dead-letters/groups", "dead-letters/{id}"}
}

// validBody is a body that a route would accept.
func validBody(route string) string {
	switch route {
	case "messages":
		return `{"payload":"x"}`
	case "succeed", "fail":
		return `{"items":[{"id":1}]}`
	case "messages/{id}/extend":
		return `{"seconds":1}`
	default:
		return `{}`
	}
}

func routePath(queue, route string, id any) string {
	return strings.TrimSuffix("/queues/"+queue+"/"+strings.ReplaceAll(route, "{id}", fmt.Sprint(id)), "/")
}

func TestImpossibleQueueNamesAreNotFound(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	names := []string{
		"%2E", "%2E%2E", "%2e%2e", "%00", "a%0Ab", "%7F", "%C2%85", "%FF", "%ED%A0%80", strings.Repeat("a", 256),
		strings.Repeat("%C3%BC", 128),
	}
	for _, name := range names {
		for _, route := range postRoutes() {
			s.do(http.MethodPost, routePath(name, route, 1), validBody(route)).problem(http.StatusNotFound, "not-found")
		}
		for _, route := range getRoutes() {
			s.do(http.MethodGet, routePath(name, route, 1), nil).problem(http.StatusNotFound, "not-found")
		}
	}
}

func TestPathsThatAreNotCleanAreNotFound(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	paths := []string{
		"/queues//messages", "//queues/a/messages", "/queues/a//messages", "/queues/./messages", "/queues/../messages",
		"/queues/a/../b/messages", "/queues/a/messages/", "/queues/a/messages/.", "/./queues", "/queues/", "/..", "//",
		"/", "/nothing", "/queues/a/nothing", "/queues/a/messages/1/nothing", "/queues/a/messages/1/succeed/more",
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			raw(t, s.url, method, path).problem(http.StatusNotFound, "not-found")
		}
	}
	s.do(http.MethodGet, "/queues", nil).want(http.StatusOK)
	if got := decode[struct{ Count int }](s.do(http.MethodGet, "/queues", nil)); got.Count != 0 {
		t.Errorf("%d queues came into being", got.Count)
	}
}

func TestIDsThatAreNoneAreNotFound(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ids := []string{"0", "-1", "+1", "01", "1.0", "1e3", "x", "9223372036854775808", "%20", "1%2F2", "%D9%A1", "999999"}
	for _, id := range ids {
		for _, route := range postRoutes() {
			if strings.Contains(route, "{id}") {
				s.do(http.MethodPost, routePath("orders", route, id), validBody(route)).problem(http.StatusNotFound, "not-found")
			}
		}
		for _, route := range []string{"messages/{id}", "dead-letters/{id}"} {
			s.do(http.MethodGet, routePath("orders", route, id), nil).problem(http.StatusNotFound, "not-found")
		}
	}
	m := s.enqueue("orders", payloadOf("x"))
	s.do(http.MethodGet, itemPath("other", m.ID), nil).problem(http.StatusNotFound, "not-found")
	s.do(http.MethodGet, letterPath("orders", m.ID), nil).problem(http.StatusNotFound, "not-found")
	s.do(http.MethodGet, "/queues/other", nil).problem(http.StatusNotFound, "not-found")
}

func TestOtherMethodsAreNotAllowed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	want := map[string]string{"/queues": "GET, HEAD, OPTIONS", "/healthz": "GET, HEAD, OPTIONS"}
	for _, route := range append(postRoutes(), getRoutes()...) {
		post, get := slices.Contains(postRoutes(), route), slices.Contains(getRoutes(), route)
		allow := map[bool]string{true: "OPTIONS, POST", false: "GET, HEAD, OPTIONS"}[post]
		if post && get {
			allow = "GET, HEAD, OPTIONS, POST"
		}
		want[routePath("orders", route, 1)] = allow
	}
	for path, allow := range want {
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodTrace, "BREW"} {
			answer := s.do(method, path, nil)
			answer.problem(http.StatusMethodNotAllowed, "method-not-allowed")
			if got := answer.header.Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, path, got, allow)
			}
		}
		answer := s.do(http.MethodOptions, path, nil).want(http.StatusNoContent)
		if got := answer.header.Get("Allow"); got != allow {
			t.Errorf("OPTIONS %s: Allow %q, want %q", path, got, allow)
		}
	}
	s.do(http.MethodHead, "/queues", nil).want(http.StatusOK)
	if head := s.do(http.MethodHead, "/queues/orders/messages/1", nil).want(http.StatusNotFound); len(head.body) != 0 {
		t.Errorf("HEAD has a body: %s", head.body)
	}
}

func TestBodiesThatAreNotOneJSONObject(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	bodies := map[string]string{
		"{": "body:malformed_json", "{}{}": "body:malformed_json", `{"a":1} x`: "body:malformed_json", "x": "body:malformed_json",
		"{'a':1}": "body:malformed_json", "\xef\xbb\xbf{}": "body:malformed_json", "  ": "body:malformed_json",
		"[]": "body:wrong_type", `"x"`: "body:wrong_type", "1": "body:wrong_type", "null": "body:wrong_type", "true": "body:wrong_type",
	}
	for _, route := range postRoutes() {
		if route == oneReport {
			continue // It is recorded.
		}
		for body, field := range bodies {
			got := s.do(http.MethodPost, routePath("orders", route, 1), body).problem(422, "invalid-request").fields()
			if route == "fail" && field == "body:wrong_type" {
				field = "items:required"
			}
			if !slices.Contains(got, field) {
				t.Errorf("%s with %q: errors %v, want %s", route, body, got, field)
			}
		}
		if !strings.HasSuffix(route, "fail") {
			path := routePath("orders", route, 1)
			got := s.do(http.MethodPost, path, "{\"a\":\"\xff\"}").problem(422, "invalid-request").fields()
			if diff := cmp.Diff([]string{"body:invalid_encoding"}, got); diff != "" {
				t.Errorf("%s with bytes that are not UTF-8: %s", route, diff)
			}
		}
	}
}

func TestUnknownAndDuplicateFieldsAreRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, route := range postRoutes() {
		if strings.HasSuffix(route, "fail") {
			continue // A failure report takes anything.
		}
		body := strings.TrimSuffix(validBody(route), "}")
		if body != "{" {
			body += ","
		}
		path := routePath("orders", route, 1)
		got := s.do(http.MethodPost, path, body+`"surprise":1}`).problem(422, "invalid-request").fields()
		if !slices.Contains(got, "surprise:unknown_field") {
			t.Errorf("%s with an unknown field: %v", route, got)
		}
	}
	twice := `{"payload":"a","payload":"b"}`
	got := s.do(http.MethodPost, "/queues/orders/messages", twice).problem(422, "invalid-request").fields()
	if diff := cmp.Diff([]string{"payload:duplicate_field"}, got); diff != "" {
		t.Error(diff)
	}
	for _, route := range append(postRoutes(), getRoutes()...) {
		method, body := http.MethodGet, ""
		if slices.Contains(postRoutes(), route) {
			method, body = http.MethodPost, validBody(route)
		}
		got := s.do(method, routePath("orders", route, 1)+"?surprise=1", body).problem(422, "invalid-request").fields()
		if diff := cmp.Diff([]string{"surprise:unknown_field"}, got); diff != "" {
			t.Errorf("%s with an unknown parameter: %s", route, diff)
		}
		got = raw(t, s.url, method, routePath("orders", route, 1)+"?a=%zz").problem(422, "invalid-request").fields()
		if diff := cmp.Diff([]string{"query:malformed_query"}, got); diff != "" {
			t.Errorf("%s with a malformed query: %s", route, diff)
		}
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	refused := []string{
		"text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/xml", "/", "json",
	}
	accepted := []string{
		"application/json", "application/json; charset=UTF-8", "Application/JSON", "application/merge-patch+json",
	}
	for _, route := range postRoutes() {
		for _, contentType := range refused {
			answer := post(t, s.url+routePath("orders", route, 1), http.Header{"Content-Type": {contentType}}, validBody(route))
			if strings.HasSuffix(route, "fail") {
				if answer.status == http.StatusUnsupportedMediaType {
					t.Errorf("%s refuses content type %q", route, contentType)
				}
				continue
			}
			answer.problem(http.StatusUnsupportedMediaType, "unsupported-media-type")
		}
		if !strings.HasSuffix(route, "fail") {
			post(t, s.url+routePath("orders", route, 1), http.Header{"Content-Encoding": {"gzip"}}, validBody(route)).
				problem(http.StatusUnsupportedMediaType, "unsupported-media-type")
		}
	}
	for _, contentType := range accepted {
		post(t, s.url+"/queues/orders/messages", http.Header{"Content-Type": {contentType}}, `{"payload":"x"}`).want(201)
	}
	post(t, s.url+"/queues/orders/messages", http.Header{}, `{"payload":"x"}`).want(201)
}

func TestBodiesAboveTheLimit(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, route := range postRoutes() {
		if route == oneReport {
			continue // It is recorded.
		}
		body := strings.Repeat(" ", 17<<20) + validBody(route)
		answer := s.do(http.MethodPost, routePath("orders", route, 1), body)
		answer.problem(http.StatusRequestEntityTooLarge, "too-large")
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m := s.enqueue("orders", payloadOf("x"))
	for _, action := range []string{"succeed", "fail", "release", "extend"} {
		body := validBody("messages/{id}/" + action)
		s.do(http.MethodPost, itemPath("orders", m.ID)+"/"+action, body).problem(http.StatusConflict, "not-processing")
	}
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/replay", nil).problem(http.StatusConflict, "not-dead")
}

func TestWrongTokensAreRefusedNotIgnored(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	m := s.claim("orders")
	tokens := []string{
		`null`, `7`, `""`, `{}`, `["a"]`, `true`, `"a b"`, `"\u0000"`, `"é"`, `"` + strings.Repeat("a", 129) + `"`,
	}
	for _, action := range []string{"succeed", "fail", "release", "extend"} {
		for _, token := range tokens {
			body := fmt.Sprintf(`{"seconds":1,"lease_token":%s}`, token)
			if action != "extend" {
				body = fmt.Sprintf(`{"lease_token":%s}`, token)
			}
			got := s.do(http.MethodPost, itemPath("orders", m.ID)+"/"+action, body).problem(422, "invalid-request").fields()
			if diff := cmp.Diff([]string{"lease_token:invalid_value"}, got); diff != "" {
				t.Errorf("%s with token %s: %s", action, token, diff)
			}
		}
	}
	body := fmt.Sprintf(`{"lease_token":"stale","lease_token":%q}`, m.LeaseToken)
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/fail", body).problem(422, "invalid-request")
	after := decode[msg](s.do(http.MethodGet, itemPath("orders", m.ID), nil).want(200))
	if after.Status != "processing" || after.RetryCount != 0 {
		t.Errorf("refused calls changed the message: %+v", after)
	}
}

func TestUndeclaredQueuesCanBeDenied(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(_ *queueapi.Options, options *store.Options) { options.DenyUndeclaredQueues = true })
	s.do(http.MethodPost, "/queues/orders/messages", `{"payload":"x"}`).problem(http.StatusNotFound, "queue-not-declared")
	s.do(http.MethodGet, "/queues/orders", nil).problem(http.StatusNotFound, "not-found")
}

func TestReadingCreatesNoQueue(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.do(http.MethodPost, "/queues/orders/claim", nil).want(http.StatusOK)
	s.do(http.MethodGet, routePath("orders", "messages", 1), nil).want(http.StatusOK)
	// A mistyped name must not read as if nothing were dead.
	for _, route := range []string{"dead-letters", "dead-letters/groups"} {
		s.do(http.MethodGet, routePath("orders", route, 1), nil).problem(http.StatusNotFound, "not-found")
	}
	s.do(http.MethodPost, "/queues/orders/messages", `{"payload":""}`).want(422)
	s.do(http.MethodGet, "/queues/orders", nil).problem(http.StatusNotFound, "not-found")
}
