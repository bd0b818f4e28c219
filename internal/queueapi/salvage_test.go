package queueapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestReportsThatAreNoObjectAreRecorded: T stands for the current lease's token.
func TestReportsThatAreNoObjectAreRecorded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	huge := strings.Repeat("x", 9<<20)
	tests := map[string]struct{ body, reason string }{
		"text":             {"boom\x00 at line 7", "[not a JSON object] boom at line 7"},
		"white space":      {" \r\n", "no error was reported"},
		"byte order mark":  {"\ufeff" + `{"error":"boom"}`, "boom"},
		"string":           {`"boom"`, `[not a JSON object] "boom"`},
		"array":            {`["boom"]`, `[not a JSON object] ["boom"]`},
		"null":             {`null`, `[not a JSON object] null`},
		"unescaped quote":  {`{"error":"a "b" c","lease_token":"T"}`, `[not a JSON object] {"error":"a "b" c","lease_token":"[lease_token]"}`},
		"two documents":    {`{"error":"a"}{"error":"b"}`, `[not a JSON object] {"error":"a"}{"error":"b"}`},
		"form":             {`error=boom&lease_token=T`, `[not a JSON object] error=boom&lease_token=[lease_token]`},
		"encoded twice":    {`"{\"lease_token\": \"T\"}"`, `[not a JSON object] "{\"lease_token\": \"[lease_token]\"}"`},
		"words":            {`the lease_token was lost`, `[not a JSON object] the lease_token was lost`},
		"cut in a string":  {`{"lease_token":"T","error":"boom \u00`, `boom …[report cut]`},
		"cut in an escape": {`{"error":"boom \\\`, `boom \…[report cut]`},
		"cut in an array":  {`{"error":"boom","stack_trace":["a",`, `boom…[report cut]`},
		"cut in a key":     {`{"error":"boom","sta`, `boom…[report cut]`},
		"cut after colon":  {`{"error":"boom","category":`, `boom…[report cut]`},
		"huge text":        {huge, "[not a JSON object] xxx"},
		"huge error":       {`{"error":"` + huge + `"}`, "xxx"},
		"huge, token first": {
			`{"lease_token":"T","error":"boom","stack_trace":"` + huge + `"}`, "boom…[report cut]",
		},
		"huge, token last": {`{"error":"boom","stack_trace":"` + huge + `", "lease_token" : "T"}`, "boom…[report cut]"},
		"huge, token across the end of what is kept": {
			`{"error":"boom","stack_trace":"` + huge[:8<<20-60] + `","lease_token":"T","x":"` + huge + `"}`, "boom…[report cut]",
		},
		"above what is seen, token first": {`{"error":"boom","lease_token":"T","x":"` + strings.Repeat(huge, 8) + `"}`, "boom…"},
	}
	for name, test := range tests {
		for _, fence := range []string{"current", "stale"} {
			if fence == "stale" && (!strings.Contains(test.body, "T") || strings.Contains(name, "across")) {
				continue
			}
			m := s.enqueue("orders", payloadOf("x"))
			token := s.claim("orders").LeaseToken
			if fence == "stale" {
				token = "0b64fb1e-32a5-4a39-8f9c-5d2f3f1c7a11"
			}
			body := strings.Replace(test.body, "T", token, 1)
			t.Logf("%s, %s", name, fence)
			answer := post(t, s.url+itemPath("orders", m.ID)+"/fail", http.Header{}, body)
			if fence == "stale" {
				answer.problem(http.StatusConflict, "stale-lease")
			} else {
				failed := decode[msg](answer.want(http.StatusOK))
				if failed.RetryCount != 1 || !strings.HasPrefix(*failed.LastError, test.reason) {
					t.Errorf("%s is recorded as %.100q", name, *failed.LastError)
				}
			}
			s.exec("DELETE FROM deadletter.message WHERE id = $1", m.ID)
		}
	}
}

// TestAnIllegibleTokenIsNotIgnored: the caller meant to be fenced, so it must not act on whatever lease is current.
func TestAnIllegibleTokenIsNotIgnored(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m := s.enqueue("orders", payloadOf("x"))
	s.claim("orders")
	path := s.url + itemPath("orders", m.ID) + "/fail"
	for _, body := range []string{
		`{"lease_token":`, `{"lease_token"`, `lease_token=`, `{"lease_token": {"a":1}, "error":"a "b""}`, `["lease_token"]`,
		`lease_token=a&lease_token=b`,
	} {
		post(t, path, http.Header{}, body).problem(http.StatusUnprocessableEntity, "invalid-request")
	}
	utf16 := fmt.Sprintf("{%s", strings.Join(strings.Split(`"lease_token":"other"}`, ""), "\x00"))
	post(t, path, http.Header{}, utf16).problem(http.StatusConflict, "stale-lease")
	post(t, path, http.Header{"Content-Encoding": {"gzip"}}, "\x1f\x8b").problem(415, "unsupported-media-type")
	post(t, path, http.Header{}, strings.Repeat("x", 65<<20)).problem(http.StatusRequestEntityTooLarge, "too-large")
	if now := decode[msg](s.do(http.MethodGet, itemPath("orders", m.ID), nil).want(200)); now.Status != "processing" {
		t.Errorf("a call whose token is not known has left the message %s", now.Status)
	}
	strict := newServer(t, requireToken)
	strict.enqueue("orders", payloadOf("x"))
	held := strict.claim("orders")
	post(t, strict.url+itemPath("orders", held.ID)+"/fail", http.Header{}, "boom").problem(422, "invalid-request")
	body := "boom lease_token: " + held.LeaseToken
	post(t, strict.url+itemPath("orders", held.ID)+"/fail", http.Header{}, body).want(http.StatusOK)
}
