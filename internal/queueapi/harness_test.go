package queueapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

const schema = "deadletter"

func TestMain(m *testing.M) { pgtest.Main(m) }

// server is an API on a real database, behind a real HTTP server.
type server struct {
	t       *testing.T
	api     *queueapi.API
	store   *store.Store
	url     string
	dbURL   string
	logs    *logBuffer
	headers http.Header
	// claiming is the context of the claim that the server took last.
	claiming atomic.Value
}

// option changes how a server is built.
type option func(*queueapi.Options, *store.Options)

func newServer(t *testing.T, options ...option) *server {
	t.Helper()
	s := newUncheckedServer(t, options...)
	if err := s.api.CheckSchema(t.Context()); err != nil {
		t.Fatalf("check schema: %v", err)
	}
	return s
}

// newUncheckedServer is a server that has not looked at its database yet.
func newUncheckedServer(t *testing.T, options ...option) *server {
	t.Helper()
	dbURL := pgtest.Database(t)
	if _, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: dbURL, Schema: schema}); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return newServerOn(t, dbURL, options...)
}

func newServerOn(t *testing.T, dbURL string, options ...option) *server {
	t.Helper()
	logs := new(logBuffer)
	storeOptions := store.Options{DatabaseURL: dbURL, Schema: schema, MaxConns: 8}
	apiOptions := queueapi.Options{
		Logger:  slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Version: "test",
	}
	for _, apply := range options {
		apply(&apiOptions, &storeOptions)
	}
	db, err := store.Open(t.Context(), storeOptions)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(db.Close)
	if apiOptions.Backend == nil {
		apiOptions.Backend = db
	} else if hooked, ok := apiOptions.Backend.(*hookedBackend); ok {
		hooked.Backend = db
	}
	api, err := queueapi.New(apiOptions)
	if err != nil {
		t.Fatalf("new API: %v", err)
	}
	s := &server{t: t, api: api, store: db, dbURL: dbURL, logs: logs}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/claim") {
			s.claiming.Store(r.Context())
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// response is an answer that has been checked against the OpenAPI document.
type response struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// do sends a request and checks request and answer against the OpenAPI document. body is JSON text, bytes, or a value
// to be marshalled; nil sends none.
func (s *server) do(method, path string, body any) *response {
	s.t.Helper()
	return s.send(s.t.Context(), method, path, body)
}

func (s *server) send(ctx context.Context, method, path string, body any) *response {
	s.t.Helper()
	answer, err := s.try(ctx, method, path, body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

func (s *server) try(ctx context.Context, method, path string, body any) (*response, error) {
	s.t.Helper()
	raw := rawBody(s.t, body)
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	if len(raw) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(request.Header, s.headers)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	checkContract(s.t, request, raw, answer, text)
	return &response{t: s.t, status: answer.StatusCode, header: answer.Header, body: text}, nil
}

func rawBody(t *testing.T, body any) []byte {
	t.Helper()
	switch body := body.(type) {
	case nil:
		return nil
	case string:
		return []byte(body)
	case []byte:
		return body
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
}

// want fails the test unless the answer has the status.
func (r *response) want(status int) *response {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("status %d, want %d: %.600s", r.status, status, r.body)
	}
	return r
}

// problem is the answer as a problem of this type.
func (r *response) problem(status int, slug string) problem {
	r.t.Helper()
	r.want(status)
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		r.t.Fatalf("content type %q, want a problem: %.300s", got, r.body)
	}
	p := decode[problem](r)
	if want := "https://deadletter.dev/problems/" + slug; p.Type != want || p.Status != status || p.RequestID == "" {
		r.t.Fatalf("problem %+v, want type %s and status %d", p, want, status)
	}
	return p
}

func decode[T any](r *response) T {
	r.t.Helper()
	var value T
	if err := json.Unmarshal(r.body, &value); err != nil {
		r.t.Fatalf("decode %.300s: %v", r.body, err)
	}
	return value
}

type problem struct {
	Type, Title, Detail string
	Status              int
	RequestID           string `json:"request_id"`
	Errors              []struct{ Field, Code, Message string }
}

// fields are the erroneous fields as field:code.
func (p problem) fields() []string {
	var fields []string
	for _, e := range p.Errors {
		fields = append(fields, e.Field+":"+e.Code)
	}
	return fields
}

type msg struct {
	ID              int64
	Queue           string
	Payload         string
	PayloadEncoding string `json:"payload_encoding"`
	PayloadSize     int    `json:"payload_size"`
	Truncated       bool   `json:"payload_truncated"`
	Headers         []map[string]string
	Status          string
	Priority        int
	GroupKey        *string `json:"group_key"`
	ExpiresAt       *string `json:"expires_at"`
	RetryCount      int     `json:"retry_count"`
	MaxRetries      int     `json:"max_retries"`
	DeliveryCount   int     `json:"delivery_count"`
	ReplayCount     int     `json:"replay_count"`
	RetryAfter      *string `json:"retry_after"`
	LastError       *string `json:"last_error"`
	LastFailure     *struct {
		Reason, Category, Fingerprint string
		ErrorClass                    string `json:"error_class"`
		Consumer                      struct{ Instance, Version string }
	} `json:"last_failure"`
	LeaseToken     string  `json:"lease_token"`
	LeaseExpiresAt *string `json:"lease_expires_at"`
	CreatedAt      string  `json:"created_at"`
	UpdatedAt      string  `json:"updated_at"`
	DeadAt         *string `json:"dead_at"`
}

type claimed struct {
	Claimed  bool
	Message  *msg
	Messages []msg
}

// enqueue puts one message into a queue.
func (s *server) enqueue(queue string, body any) msg {
	s.t.Helper()
	return decode[msg](s.do(http.MethodPost, messagesPath(queue), body).want(http.StatusCreated))
}

// claim claims the next message, which must be there.
func (s *server) claim(queue string) msg {
	s.t.Helper()
	got := decode[claimed](s.do(http.MethodPost, queuePath(queue)+"/claim", nil).want(http.StatusOK))
	if !got.Claimed || got.Message == nil {
		s.t.Fatalf("nothing to claim in %q", queue)
	}
	return *got.Message
}

// dead makes a message and lets it die.
func (s *server) dead(queue string, body, report any) msg {
	s.t.Helper()
	s.enqueue(queue, body)
	m := s.claim(queue)
	return decode[msg](s.do(http.MethodPost, itemPath(queue, m.ID)+"/fail", report).want(http.StatusOK))
}

func queuePath(queue string) string          { return "/queues/" + url.PathEscape(queue) }
func messagesPath(queue string) string       { return queuePath(queue) + "/messages" }
func itemPath(queue string, id int64) string { return fmt.Sprintf("%s/%d", messagesPath(queue), id) }

func letterPath(queue string, id int64) string {
	return fmt.Sprintf("%s/dead-letters/%d", queuePath(queue), id)
}
func payloadOf(text string) map[string]any { return map[string]any{"payload": text} }
func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
