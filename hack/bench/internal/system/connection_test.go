package system

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// echo answers with what it was sent, at once or in chunks, and counts connections.
func echo(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/chunks":
			for part := range strings.SplitAfterSeq(string(body), " ") {
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
			}
		case "/refuse":
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte("no"))
		case "/wait":
			<-r.Context().Done()
		default:
			_, _ = w.Write(append([]byte(r.Method+" "+r.Host+" "), body...))
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestConnectionReadsAnswersOfEveryShape(t *testing.T) {
	t.Parallel()
	server := echo(t)
	address := strings.TrimPrefix(server.URL, "http://")
	conn, err := dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	long := strings.Repeat("word ", 50_000)
	for _, test := range []struct{ path, body, want string }{
		{"/", "", "POST " + address + " "},
		{"/", "hello", "POST " + address + " hello"},
		{"/", long, "POST " + address + " " + long},
		{"/chunks", "one two three", "one two three"},
		{"/chunks", "", ""},
		{"/", "again", "POST " + address + " again"},
	} {
		got, err := conn.do(t.Context(), http.MethodPost, test.path, []byte(test.body), http.StatusOK)
		if err != nil || string(got) != test.want {
			t.Errorf("%s %.20q: got %.40q, %v", test.path, test.body, got, err)
		}
	}
	if _, err := conn.do(t.Context(), http.MethodGet, "/refuse", nil, http.StatusOK); err == nil ||
		!strings.Contains(err.Error(), "409") {
		t.Errorf("another status: got %v", err)
	}
	if _, err := conn.do(t.Context(), http.MethodGet, "/", nil, http.StatusOK); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

func TestConnectionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	conn, err := dial(t.Context(), strings.TrimPrefix(echo(t).URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := conn.do(ctx, http.MethodGet, "/wait", nil, http.StatusOK); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's end", err)
	}
}
