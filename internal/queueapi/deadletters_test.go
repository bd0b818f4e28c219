package queueapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type letter struct {
	Envelope struct {
		MessageID        int64   `json:"message_id"`
		OriginalQueue    string  `json:"original_queue"`
		FailureReason    string  `json:"failure_reason"`
		FailureCategory  string  `json:"failure_category"`
		StackTrace       *string `json:"stack_trace"`
		RetryCount       int     `json:"retry_count"`
		FirstFailureAt   *string `json:"first_failure_at"`
		LastFailureAt    *string `json:"last_failure_at"`
		ConsumerInstance *string `json:"consumer_instance"`
		ConsumerVersion  *string `json:"consumer_version"`
	} `json:"dlq_envelope"`
	OriginalHeaders []map[string]string `json:"original_headers"`
	OriginalBody    string              `json:"original_body"`
	BodyEncoding    string              `json:"original_body_encoding"`
	BodySize        int                 `json:"original_body_size"`
	BodyTruncated   bool                `json:"original_body_truncated"`
	Fingerprint     string
	ReplayCount     int    `json:"replay_count"`
	DiedAt          string `json:"died_at"`
	Replays         []struct{ Source, Category, Fingerprint string }
	Attempts        []struct {
		Number  int
		Outcome string
		Failure *struct {
			Reason     string
			StackTrace *string `json:"stack_trace"`
		}
	}
}

// message is what the letter says of the message's contents.
func (l letter) message() msg {
	return msg{
		ID: l.Envelope.MessageID, Payload: l.OriginalBody, PayloadEncoding: l.BodyEncoding, Headers: l.OriginalHeaders,
	}
}

type letterPage struct {
	Letters    []letter `json:"dead_letters"`
	Count      int
	NextCursor *string `json:"next_cursor"`
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", `{"payload":"x","max_retries":2,"headers":[{"name":"a","value":"1"},{"name":"a","value":"2"}]}`)
	var id int64
	for n := range 2 {
		m := s.claim("orders")
		id = m.ID
		report := map[string]any{
			"error": fmt.Sprintf("boom %d", n), "category": "EXTERNAL", "error_class": "IOError", "stack_trace": "a\nb",
			"consumer": map[string]any{"instance": "w1", "version": "v1"}, "retry_after_seconds": 0,
		}
		s.do(http.MethodPost, itemPath("orders", id)+"/fail", report).want(200)
	}
	answer := s.do(http.MethodGet, letterPath("orders", id), nil).want(200)
	got := decode[letter](answer)
	e := got.Envelope
	if e.MessageID != id || e.OriginalQueue != "orders" || e.FailureReason != "boom 1" ||
		e.FailureCategory != "EXTERNAL" ||
		*e.StackTrace != "a\nb" || e.RetryCount != 2 || *e.ConsumerInstance != "w1" || *e.ConsumerVersion != "v1" ||
		*e.FirstFailureAt >= *e.LastFailureAt {
		t.Errorf("envelope %+v", e)
	}
	if !contains(string(answer.body), `"original_topic":null`, `"original_partition":null`, `"original_offset":null`) {
		t.Errorf("fields of other brokers are not null: %s", answer.body)
	}
	if got.OriginalBody != "x" || len(got.OriginalHeaders) != 2 || len(got.Attempts) != 2 || len(got.Fingerprint) != 16 ||
		got.Attempts[0].Failure.StackTrace == nil || got.Replays == nil {
		t.Errorf("letter %+v", got)
	}
	s.do(http.MethodPost, itemPath("orders", id)+"/replay", nil).want(200)
	s.do(http.MethodGet, letterPath("orders", id), nil).problem(404, "not-found")
	again := `{"error":"again","retryable":false}`
	s.do(http.MethodPost, itemPath("orders", s.claim("orders").ID)+"/fail", again).want(200)
	got = decode[letter](s.do(http.MethodGet, letterPath("orders", id), nil).want(200))
	if got.ReplayCount != 1 || len(got.Replays) != 1 || got.Replays[0].Source != "api" || len(got.Attempts) != 3 {
		t.Errorf("after a replay and another death: %+v", got)
	}
}

func TestDeadLetterFilters(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	kill := func(name, header string, report map[string]any) int64 {
		report["retryable"] = false
		body := map[string]any{"payload": name, "headers": []any{map[string]any{"name": "tenant", "value": header}}}
		return s.dead("orders", body, report).ID
	}
	first := kill("first", "acme", map[string]any{
		"error": "timeout after 10 ms", "category": "TIMEOUT", "error_class": "A",
	})
	second := kill("second", "a:b", map[string]any{
		"error": "100% _wrong_", "category": "mine", "consumer": map[string]any{"version": "v2"},
	})
	third := kill("third", "acme", map[string]any{"error": "timeout after 20 ms", "category": "TIMEOUT"})
	s.do(http.MethodPost, itemPath("orders", third)+"/replay", nil).want(200)
	s.claim("orders")
	again := `{"error":"timeout after 30 ms","category":"TIMEOUT","retryable":false}`
	s.do(http.MethodPost, itemPath("orders", third)+"/fail", again).want(200)
	firstLetter := decode[letter](s.do(http.MethodGet, letterPath("orders", first), nil).want(200))
	tests := map[string][]int64{
		"":                                       {third, second, first},
		"category=TIMEOUT":                       {third, first},
		"category=mine&category=EXTERNAL":        {second},
		"category=NONE":                          {},
		"fingerprint=" + firstLetter.Fingerprint: {third, first},
		"error_class=A":                          {first},
		"reason=timeout%20after":                 {third, first},
		"reason=Timeout":                         {},
		"reason=%25%20_":                         {second},
		"consumer_version=v2":                    {second},
		"replay_count=1":                         {third},
		"replay_count=0":                         {second, first},
		"header=tenant:acme":                     {third, first},
		"header=tenant:a:b":                      {second},
		"header=tenant:":                         {},
		"died_after=" + url.QueryEscape(firstLetter.DiedAt):  {third, second, first},
		"died_before=" + url.QueryEscape(firstLetter.DiedAt): {},
		"died_before=2000-01-01T00:00:00%2B02:00":            {},
		"category=TIMEOUT&replay_count=0":                    {first},
		"limit=2":                                            {third, second},
	}
	for query, want := range tests {
		page := decode[letterPage](s.do(http.MethodGet, "/queues/orders/dead-letters?"+query, nil).want(200))
		got := []int64{}
		for _, l := range page.Letters {
			got = append(got, l.Envelope.MessageID)
		}
		if diff := cmp.Diff(want, got); diff != "" || page.Count != len(want) {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestDeadLetterParametersAreStrict(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tests := map[string]string{
		"limit=0": "limit:out_of_range", "limit=101": "limit:out_of_range", "limit=x": "limit:wrong_type", "limit=": "limit:wrong_type",
		"limit=1&limit=2": "limit:duplicate_field", "limit=%2B1": "limit:wrong_type",
		"cursor=": "cursor:invalid_cursor", "cursor=!": "cursor:invalid_cursor", "cursor=bQAAAAAAAAAB": "cursor:invalid_cursor",
		"cursor=ZAAAAAAAAAAB": "cursor:invalid_cursor", "category=": "category:invalid_value",
		"category=%00": "category:invalid_encoding", "reason=%FF": "reason:invalid_encoding", "reason=": "reason:invalid_value",
		"reason=" + strings.Repeat("a", 1025): "reason:too_long",
		"fingerprint=xyz":                     "fingerprint:invalid_value", "fingerprint=0123456789ABCDEF": "fingerprint:invalid_value",
		"died_after=yesterday": "died_after:invalid_value", "died_before=2026-01-01": "died_before:invalid_value",
		// The zero time, which a filter takes for none.
		"died_after=0001-01-01T00:00:00Z": "died_after:invalid_value", "died_before=0001-01-01T01:00:00%2B01:00": "died_before:invalid_value",
		"died_after=": "died_after:invalid_value", "replay_count=-1": "replay_count:out_of_range", "replay_count=x": "replay_count:wrong_type",
		"header=tenant": "header:invalid_value", "header=:acme": "header:invalid_value", "header=a:b&header=c:d": "header:duplicate_field",
		"consumer_version=": "consumer_version:invalid_value", "error_class=a&error_class=b": "error_class:duplicate_field",
		strings.Repeat("category=a&", 21): "category:too_many",
		"status=dead":                     "status:unknown_field", "offset=1": "offset:unknown_field",
	}
	for query, want := range tests {
		got := s.do(http.MethodGet, "/queues/orders/dead-letters?"+query, nil).problem(422, "invalid-request").fields()
		if !slices.Contains(got, want) {
			t.Errorf("%.60s: errors %v, want %s", query, got, want)
		}
	}
	for query, want := range map[string]string{"limit=0": "limit:out_of_range", "limit=101": "limit:out_of_range"} {
		got := s.do(http.MethodGet, "/queues/orders/dead-letters/groups?"+query, nil).problem(422, "invalid-request").fields()
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var last int64
	for n := range 3 {
		report := map[string]any{
			"error": fmt.Sprintf("order %d not found", n), "category": "VALIDATION", "retryable": false,
			"consumer": map[string]any{"version": fmt.Sprintf("v%d", n%2)},
		}
		last = s.dead("orders", payloadOf("x"), report).ID
	}
	s.dead("orders", payloadOf("x"), `{"error":"refused","category":"AUTH","retryable":false}`)
	got := decode[struct {
		Groups []struct {
			Category, Fingerprint string
			Count                 int
			Sample                struct {
				ID     int64
				Reason string
			}
			Versions []string `json:"consumer_versions"`
		}
		Count int
	}](s.do(http.MethodGet, "/queues/orders/dead-letters/groups", nil).want(200))
	if got.Count != 2 || got.Groups[0].Count != 3 || got.Groups[0].Category != "VALIDATION" ||
		got.Groups[0].Sample.ID != last ||
		got.Groups[0].Sample.Reason != "order 2 not found" || !cmp.Equal(got.Groups[0].Versions, []string{"v0", "v1"}) {
		t.Errorf("groups %+v", got)
	}
}
