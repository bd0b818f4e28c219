package queueapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/queueapi"
)

func TestDocumentHasExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	raw, err := queueapi.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	documented := []string{}
	for path, operations := range document.Paths {
		for method := range operations {
			if method != "parameters" {
				documented = append(documented, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(documented)
	if diff := cmp.Diff(queueapi.RoutesForTest(), documented); diff != "" {
		t.Errorf("routes (-mux +document):\n%s", diff)
	}
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	want, err := queueapi.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.do(http.MethodGet, "/openapi.json", nil).want(200); !bytes.Equal(got.body, want) {
		t.Error("the served document is another")
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("a/secret-name", payloadOf("x"))
	s.do(http.MethodGet, "/queues/orders/messages/1", nil).want(404)
	s.do("BREW", "/queues", nil).want(405)
	text := string(s.do(http.MethodGet, "/metrics", nil).want(200).body)
	for _, want := range []string{
		`deadletter_request_duration_seconds_count{code="201",method="POST",route="/queues/{queue}/messages"} 1`,
		`deadletter_request_duration_seconds_count{code="404",method="GET",route="/queues/{queue}/messages/{id}"} 1`,
		`deadletter_request_duration_seconds_count{code="405",method="other",route="/queues"} 1`,
		`deadletter_build_info{component="api",version="test"} 1`, `deadletter_database_pool_max_connections 8`,
		"deadletter_long_polls 0", "deadletter_requests_in_flight 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "secret-name") {
		t.Error("a queue's name is a label")
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tests := map[string]bool{"abc-123": true, "": false, "with space": false, strings.Repeat("x", 129): false, "é": false}
	for id, kept := range tests {
		s.headers = http.Header{"X-Request-Id": {id}}
		got := s.do(http.MethodGet, "/queues/none", nil).want(404)
		answered := got.header.Get("X-Request-ID")
		if (answered == id) != kept || answered == "" || decode[problem](got).RequestID != answered {
			t.Errorf("request id %q is answered with %q", id, answered)
		}
	}
}

func TestLogsHaveTraceContextAndNoSecrets(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	s.headers = http.Header{"Traceparent": {"00-" + trace + "-" + span + "-01"}, "Authorization": {"Bearer topsecret"}}
	m := s.dead("orders", `{"payload":"payloadsecret","headers":[{"name":"namesecret","value":"valuesecret"}]}`,
		`{"error":"errorsecret","stack_trace":"stacksecret","retryable":false}`)
	s.do(http.MethodPost, itemPath("orders", m.ID)+"/succeed", `{"lease_token":"tokensecret"}`).want(409)
	log := s.logs.String()
	if !contains(log, `"trace_id":"`+trace+`"`, `"span_id":"`+span+`"`,
		`"route":"/queues/{queue}/messages/{id}/fail"`, `"status":409`) {
		t.Errorf("log %s", log)
	}
	if strings.Contains(log, "secret") {
		t.Errorf("the log holds what it must not: %s", log)
	}
	for _, bad := range []string{
		"00-x-y-01", "00-" + trace + "-" + span, "ff-" + trace + "-" + span + "-01",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01", "00-" + trace + "-" + span + "-01-more", strings.ToUpper("00-" + trace + "-" + span + "-01"),
	} {
		before := strings.Count(s.logs.String(), "trace_id")
		s.headers = http.Header{"Traceparent": {bad}}
		s.do(http.MethodGet, "/queues", nil).want(200)
		if strings.Count(s.logs.String(), "trace_id") != before {
			t.Errorf("traceparent %q is taken", bad)
		}
	}
}
