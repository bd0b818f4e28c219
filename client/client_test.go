package client

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNewChecksWhatItIsGiven(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"http://h", "https://h:8443/", "http://[::1]:80/a/b/", "http://127.0.0.1:8080",
	} {
		if _, err := New(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{
		"", "h", "h:80", "ftp://h", "http://", "http://u:secret@h", "http://h?q", "http://h?", "http://h#f", "http://h\n", "://",
	} {
		if _, err := New(address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for name, option := range map[string]Option{
		"client": WithHTTPClient(nil), "timeout": WithTimeout(0), "retries": WithRetries(-1), "tracer": WithTracerProvider(nil),
	} {
		if _, err := New("http://h", option); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRequestsAreDressed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.wire.header("User-Agent"); got != "deadletter-go/devel" {
		t.Errorf("the user agent is %q", got)
	}
	if b.wire.header("Authorization") != "" || b.wire.header("Traceparent") != "" {
		t.Error("there is a token, or a trace, from nowhere")
	}
	var waits []time.Duration
	c, s := scripted(t, &waits, answers(200, `{"status": "ready"}`))
	c.userAgent = ""
	if err := WithUserAgent("mine")(c); err != nil {
		t.Fatal(err)
	}
	paths := new(pathRecorder)
	paths.next = s
	c.http.Transport = paths
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if paths.url != "http://api.test/base/readyz" || paths.agent != "mine" {
		t.Errorf("%s by %s", paths.url, paths.agent)
	}
}

type pathRecorder struct {
	next       http.RoundTripper
	url, agent string
}

func (p *pathRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	p.url, p.agent = r.URL.String(), r.UserAgent()
	return p.next.RoundTrip(r)
}

// TestTokensAreReadAnew: a token that is renewed in its file is used from then on, between two tries even.
func TestTokensAreReadAnew(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newBench(t, WithToken(TokenFile(file)))
	if err := b.Ready(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is no file, and the error is %v", err)
	}
	write(" \n")
	if err := b.Ready(t.Context()); err == nil {
		t.Error("the file is empty, and there is no error")
	}
	write("one\n")
	if err := b.Ready(t.Context()); err != nil || b.wire.header("Authorization") != "Bearer one" {
		t.Errorf("%q, %v", b.wire.header("Authorization"), err)
	}
	b.wire.loseFirst("/readyz", theRequest)
	b.pause = func(context.Context, time.Duration) error {
		write("two")
		return nil
	}
	if err := b.Ready(t.Context()); err != nil || b.wire.header("Authorization") != "Bearer two" {
		t.Errorf("%q, %v", b.wire.header("Authorization"), err)
	}
	c, err := New(b.api.URL, WithToken(StaticToken("fixed")), WithHTTPClient(&http.Client{Transport: b.wire}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(t.Context()); err != nil || b.wire.header("Authorization") != "Bearer fixed" {
		t.Errorf("%q, %v", b.wire.header("Authorization"), err)
	}
}

func TestTimeoutsBoundATry(t *testing.T) {
	t.Parallel()
	b := newBench(t, WithTimeout(50*time.Millisecond), WithRetries(1))
	var waits []time.Duration
	b.pause = recorded(&waits)
	b.http.Transport = hanging{}
	if _, err := b.Get(t.Context(), b.queue, 1); !errors.Is(err, context.DeadlineExceeded) || len(waits) != 1 {
		t.Errorf("%d waits: %v", len(waits), err)
	}
	// A long poll may take longer by what it waits.
	b = newBench(t, WithTimeout(500*time.Millisecond))
	if got, err := b.Claim(t.Context(), b.queue, ClaimOptions{Wait: time.Second}); err != nil || len(got) != 0 {
		t.Errorf("%d messages, %v", len(got), err)
	}
}

// hanging never answers.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestTokensAreNotShownToOthers: whoever redirects is not the API.
func TestTokensAreNotShownToOthers(t *testing.T) {
	t.Parallel()
	c, err := New("http://api.test", WithToken(StaticToken("secret")))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	c.http.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
		asked++
		response, err := answers(307, "").response()
		response.Header.Set("Location", "http://elsewhere.test/")
		return response, err
	})
	_, err = c.Enqueue(t.Context(), "q", text("x"))
	if problem := new(Error); !errors.As(err, &problem) || problem.Status != 307 || asked != 1 {
		t.Errorf("%d requests: %v", asked, err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestErrorsOfOthers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{
		401: ErrUnauthenticated, 403: ErrForbidden, 413: ErrTooLarge, 502: ErrUnavailable, 503: ErrUnavailable,
		504: ErrUnavailable, 404: nil, 500: nil, 418: nil,
	} {
		err := newError(status, http.Header{"X-Request-Id": {"r-1"}}, []byte("<html>"), time.Time{})
		for _, kind := range []error{
			ErrUnauthenticated, ErrForbidden, ErrTooLarge, ErrUnavailable, ErrNotFound, ErrInternal, errors.New("x"),
		} {
			if errors.Is(err, kind) != errors.Is(kind, want) {
				t.Errorf("%d is %q: %t", status, kind, errors.Is(err, kind))
			}
		}
		if !strings.Contains(err.Error(), "request r-1") || !strings.Contains(err.Error(), "base URL") {
			t.Errorf("%d: %s", status, err)
		}
	}
	body := `{"type": "https://deadletter.dev/problems/new-one", "title": "New", "status": 409, "detail": "d."}`
	unknown := newError(409, nil, []byte(body), time.Time{})
	if unknown.Error() != "409: New: d" || errors.Is(unknown, ErrNotDead) {
		t.Errorf("a problem of later days: %s", unknown)
	}
}
