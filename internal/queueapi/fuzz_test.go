package queueapi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
	"deadletter.dev/deadletter/internal/store"
)

// wantProblem fails unless err is a problem with a status of the client's fault and bounded errors.
func wantProblem(t *testing.T, err error) {
	t.Helper()
	p := new(problem)
	if !errors.As(err, &p) {
		t.Fatalf("%v is not a problem", err)
	}
	if p.Status < 400 || p.Status > 499 || len(p.Errors) > maxFieldErrors || len(p.Errors) == 0 {
		t.Fatalf("problem %+v", p)
	}
	for _, e := range p.Errors {
		if !utf8.ValidString(e.Field) || e.Code == "" || e.Message == "" {
			t.Fatalf("field error %+v", e)
		}
	}
}

func FuzzDecodeEnqueue(f *testing.F) {
	for _, seed := range []string{
		`{"payload":"x","headers":[{"name":"a","value":"b"}],"max_retries":3,"delay_seconds":1}`,
		`{"payload":"AA==","payload_encoding":"base64","deduplication_id":"k"}`,
		`{"payload":"x","priority":3,"group_key":"customer 7","ttl_seconds":60}`,
		`{"payload":"x","priority":0.0,"group_key":"\u00e9\ud83d\ude00","ttl_seconds":31536001}`,
		`{"messages":[{"payload":"\u0000"},{"payload":"\ud83d\ude00"}]}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		value, err := strictjson.Parse(body)
		if err != nil || !utf8.Valid(body) {
			return // Refused before.
		}
		request, err := decodeEnqueue(value, 64)
		if err != nil {
			wantProblem(t, err)
			return
		}
		messages := request.messages
		if len(messages) == 0 || len(messages) > maxBatch || len(messages) != len(request.ids) {
			t.Fatalf("accepted %d messages and %d ids", len(messages), len(request.ids))
		}
		for i, m := range messages {
			if len(request.ids[i]) > maxKeyBytes {
				t.Fatalf("accepted the id %q", request.ids[i])
			}
			if m.Priority < 0 || m.Priority > message.MaxPriority || m.TTL < 0 || m.TTL > message.MaxTTL ||
				len(m.GroupKey) > message.MaxGroupKeyBytes || !utf8.ValidString(m.GroupKey) ||
				strings.ContainsRune(m.GroupKey, 0) {
				t.Fatalf("accepted %+v", m)
			}
			if len(m.Payload) == 0 || len(m.Payload) > 64 || m.MaxRetries < 0 || m.MaxRetries > message.MaxRetries ||
				m.Delay < 0 || m.Delay > message.MaxDelay || len(m.Headers) > maxHeaders {
				t.Fatalf("accepted %+v", m)
			}
		}
	})
}

func FuzzDecodeReport(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"error":"x","category":1,"stack_trace":["a",2],"retryable":false,"retry_after_seconds":"1.5"}`,
		`{"lease_token":"abc"}`, `{"items":[{"id":1},{"id":"x"},3]}`, "{\"error\":\"\xff\\ud800\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		failed, err := decodeReport(body, nil)
		if err != nil {
			wantProblem(t, err)
		} else {
			wantStorable(t, failed)
		}
		items, err := decodeReports(body)
		if err != nil {
			wantProblem(t, err)
		}
		for _, item := range items {
			if item.err != nil {
				wantProblem(t, item.err)
				continue
			}
			if item.failed.ID < 1 {
				t.Fatalf("accepted id %d", item.failed.ID)
			}
			wantStorable(t, item.failed)
		}
	})
}

func wantStorable(t *testing.T, failed store.FailedLease) {
	t.Helper()
	failure := message.NewFailure(failed.Report, message.Consumer{}, time.Time{})
	for _, text := range []string{failure.Reason, failure.ErrorClass, failure.StackTrace, string(failure.Category)} {
		if !utf8.ValidString(text) || len(text) > message.MaxStackBytes {
			t.Fatalf("cannot be stored: %q", text)
		}
	}
	if after := failed.Report.RetryAfter; after != nil && (*after < 0 || *after > message.MaxDelay) {
		t.Fatalf("retry after %s", *after)
	}
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"cursor=bQAAAAAAAAAB&limit=5", "header=a:b&died_after=2026-01-01T00:00:00Z", "category=A&category=B&fingerprint=0123456789abcdef",
		"replay_count=1&reason=%25", "cursor=ZAAAAAAAAAABAAAAAAAAAAE", "cursor=cW9yZGVycw", "a=%zz;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		c := &call{r: &http.Request{URL: &url.URL{RawQuery: raw}}}
		known := []string{
			"cursor", "limit", "header", "died_after", "category", "fingerprint", "replay_count", "reason",
		}
		if err := c.parseQuery(known); err != nil {
			wantProblem(t, err)
			return
		}
		messages := params{values: c.query}
		after := messages.messageCursor()
		if messages.err() == nil && after != 0 && messageCursor(after) != c.query.Get("cursor") {
			t.Fatalf("message cursor %q is not canonical", c.query.Get("cursor"))
		}
		letters := params{values: c.query}
		at := letters.deadLetterCursor()
		filter := letters.deadLetterFilter()
		if letters.err() == nil {
			if at.ID != 0 && deadLetterCursor(at) != c.query.Get("cursor") {
				t.Fatalf("dead letter cursor %q is not canonical", c.query.Get("cursor"))
			}
			for _, header := range filter.Headers {
				if header.Name+":"+header.Value != c.query.Get("header") {
					t.Fatalf("header filter %+v of %q", header, c.query.Get("header"))
				}
			}
		}
		queues := params{values: c.query}
		if after := queues.queueCursor(); queues.err() == nil && after != "" && queueCursor(after) != c.query.Get("cursor") {
			t.Fatalf("queue cursor %q is not canonical", c.query.Get("cursor"))
		}
		for _, q := range []params{messages, letters, queues} {
			if q.err() != nil {
				wantProblem(t, q.err())
			}
		}
	})
}
