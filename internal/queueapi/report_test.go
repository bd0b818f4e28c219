package queueapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestNothingInAReportKeepsItFromBeingRecorded: each of these is recorded, and the dead letter can be read back.
func TestNothingInAReportKeepsItFromBeingRecorded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	long := strings.Repeat("é", 200_000)
	values := []string{
		`null`, `1`, `1e999`, `true`, `{"a":[1,"\u0000"]}`, `["a",null,{"b":1}]`, `""`, `"\u0000"`, `"\ud800"`, "\"\xff\xfe\"", `"\u001b[2J"`,
		`"` + long + `"`, `"a\r\nb\tc"`, `"\u2028"`, "[" + strings.Repeat(`"line",`, 5000) + `"last"]`, strings.Repeat("[", 500) + strings.Repeat("]", 500),
	}
	fields := []string{
		`"error":%s`, `"category":%s`, `"error_class":%s`, `"stack_trace":%s`, `"consumer":%s`, `"consumer":{"instance":%s,"version":%s}`,
		`"retryable":%s`, `"retry_after_seconds":%s`, `"unknown":%s`, `"error":%s,"error":%s`,
	}
	for _, field := range fields {
		for _, value := range values {
			m := s.enqueue("orders", `{"payload":"x","max_retries":1}`)
			s.claim("orders")
			body := "{" + strings.ReplaceAll(field, "%s", value) + "}"
			failed := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/fail", body).want(http.StatusOK))
			if failed.Status != "dead" || failed.RetryCount != 1 || failed.LastError == nil {
				t.Fatalf("%.80s: %+v", body, failed)
			}
			got := decode[letter](s.do(http.MethodGet, letterPath("orders", m.ID), nil).want(http.StatusOK))
			reason := got.Envelope.FailureReason
			if len(reason) > 4096 || !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) {
				t.Errorf("%.80s: reason %.80q", body, reason)
			}
		}
	}
}

func TestReportsAreCoercedWithAMark(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	frames := strings.Repeat("frame\n", 50) + "newest"
	tests := []struct {
		body string
		ok   func(m msg, l letter) bool
	}{
		{``, func(m msg, _ letter) bool {
			return *m.LastError == "no error was reported" && m.LastFailure.Category == "UNKNOWN"
		}},
		{`{"error":null}`, func(m msg, _ letter) bool { return *m.LastError == "no error was reported" }},
		{`{"error":""}`, func(m msg, _ letter) bool { return *m.LastError == "no error was reported" }},
		{`{"error":" \n"}`, func(m msg, _ letter) bool { return *m.LastError == "no error was reported" }},
		{`{"error":{"code":7}}`, func(m msg, _ letter) bool { return *m.LastError == `{"code":7}` }},
		{`{"error":"a\u0000b\ud800"}`, func(m msg, _ letter) bool { return *m.LastError == `a\x00b\ud800` }},
		{"{\"error\":\"a\xffb\"}", func(m msg, _ letter) bool { return *m.LastError == `a\xffb` }},
		{`{"error":"` + strings.Repeat("x", 9000) + `"}`, func(m msg, _ letter) bool {
			return len(*m.LastError) == 4096 && strings.HasSuffix(*m.LastError, "…[cut]")
		}},
		{fmt.Sprintf(`{"stack_trace":%q}`, frames), func(_ msg, l letter) bool {
			stack := *l.Envelope.StackTrace
			return strings.HasPrefix(stack, "…[cut]\n") && strings.HasSuffix(stack, "newest") &&
				strings.Count(stack, "\n") == 20
		}},
		{`{"stack_trace":["a","b"]}`, func(_ msg, l letter) bool { return *l.Envelope.StackTrace == "a\nb" }},
		{`{"category":" AUTH "}`, func(m msg, _ letter) bool { return m.LastFailure.Category == "AUTH" }},
		{`{"consumer":{"instance":7,"version":"v"}}`, func(m msg, _ letter) bool {
			return m.LastFailure.Consumer.Instance == "7" && m.LastFailure.Consumer.Version == "v"
		}},
	}
	for _, test := range tests {
		m := s.enqueue("orders", `{"payload":"x","max_retries":1}`)
		s.claim("orders")
		failed := decode[msg](s.do(http.MethodPost, itemPath("orders", m.ID)+"/fail", test.body).want(http.StatusOK))
		got := decode[letter](s.do(http.MethodGet, letterPath("orders", m.ID), nil).want(http.StatusOK))
		if !test.ok(failed, got) {
			t.Errorf("%.80s is recorded as %+v, %+v", test.body, failed.LastFailure, got.Envelope)
		}
	}
}

func TestRetryAfterOfAReport(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tests := map[string]time.Duration{
		`60`: time.Minute, `0.5`: 500 * time.Millisecond, `"90"`: 90 * time.Second, `1e300`: 90 * 24 * time.Hour, `0`: 0, `"1e3"`: 1000 * time.Second,
		`null`: 2 * time.Second,
	}
	ignored := []string{
		`true`, `[]`, `{}`, `""`, `"soon"`, `"NaN"`, `"Inf"`, `"-Infinity"`, `"0x10"`, `"1e999"`, `"1_0"`, `1e999`, `-1e999`, `-5`, `"-5"`,
	}
	for _, value := range ignored {
		tests[value] = 2 * time.Second
	}
	for value, want := range tests {
		m := s.enqueue("retry", payloadOf("x"))
		s.claim("retry")
		report := `{"retry_after_seconds":` + value + `}`
		failed := decode[msg](s.do(http.MethodPost, itemPath("retry", m.ID)+"/fail", report).want(200))
		got := time.Duration(0)
		if failed.RetryAfter != nil {
			got = instant(t, *failed.RetryAfter).Sub(instant(t, failed.UpdatedAt))
		}
		if got != want {
			t.Errorf("retry_after_seconds %s: retried after %s, want %s", value, got, want)
		}
		if got := contains(*failed.LastError, "invalid retry_after_seconds ignored"); got != slices.Contains(ignored, value) {
			t.Errorf("retry_after_seconds %s: the reason is %q", value, *failed.LastError)
		}
		s.exec("DELETE FROM deadletter.message WHERE id = $1", m.ID)
	}
}
