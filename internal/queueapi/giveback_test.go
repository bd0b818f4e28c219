package queueapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// oneMessage is a store with one message to claim.
type oneMessage struct {
	Backend

	// claiming is called by each claim, releasing by each release.
	claiming, releasing func()
	released            atomic.Int32
}

func (*oneMessage) CheckSchema(context.Context) error                { return nil }
func (*oneMessage) PoolStats() store.PoolStats                       { return store.PoolStats{} }
func (*oneMessage) ExpireLeases(context.Context, int) (int, error)   { return 0, nil }
func (*oneMessage) FoldDepth(context.Context) error                  { return nil }
func (*oneMessage) NotifyReady(context.Context, []string) error      { return nil }
func (*oneMessage) ExpireMessages(context.Context, int) (int, error) { return 0, nil }
func (*oneMessage) FoldOutcomes(context.Context, int) (int, error)   { return 0, nil }

// JudgeBreakers implements Backend.
func (*oneMessage) JudgeBreakers(context.Context) ([]store.BreakerChange, error) { return nil, nil }

// RetryAfter implements Backend.
func (*oneMessage) RetryAfter(context.Context, string) (time.Duration, error) { return 0, nil }

// ListenReady hears nothing.
func (*oneMessage) ListenReady(ctx context.Context, _ func([]string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// EnforceRetention implements Backend.
func (*oneMessage) EnforceRetention(context.Context, int) (store.RetentionResult, error) {
	return store.RetentionResult{}, nil
}

// Claim implements Backend.
func (b *oneMessage) Claim(context.Context, string, store.ClaimParams) ([]message.Message, error) {
	b.claiming()
	return []message.Message{{ID: 1, Lease: &message.Lease{Token: "token"}}}, nil
}

// Release implements Backend.
func (b *oneMessage) Release(_ context.Context, _ string, lease store.LeaseRef, _ time.Duration,
) (message.Message, error) {
	b.releasing()
	if lease.ID == 1 && lease.Token == "token" {
		b.released.Add(1)
	}
	return message.Message{}, nil
}

func newStubAPI(t *testing.T, backend Backend, logger *slog.Logger) *API {
	t.Helper()
	api, err := New(Options{Backend: backend, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	return api
}

// brokenWriter is a connection that breaks when the answer is written.
type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestClaimIsGivenBackWhenTheAnswerCannotBeWritten(t *testing.T) {
	t.Parallel()
	backend := &oneMessage{claiming: func() {}, releasing: func() {}}
	api := newStubAPI(t, backend, slog.New(slog.DiscardHandler))
	for _, body := range []string{"", `{"max":1}`, `{"wait_seconds":1}`} {
		before := backend.released.Load()
		const path = "/queues/orders/claim"
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		api.ServeHTTP(brokenWriter{httptest.NewRecorder()}, request)
		if given := backend.released.Load() - before; given != 1 {
			t.Errorf("after the claim %q, %d messages were given back, want 1", body, given)
		}
	}
}

// TestDrainWaitsForCutOffRequests: a claim that outlives the drain is cut off, and still gives its message back before
// the server, and with it the store, is let go.
func TestDrainWaitsForCutOffRequests(t *testing.T) {
	t.Parallel()
	claiming, cutOff, served := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	backend := &oneMessage{
		claiming: func() { close(claiming); <-cutOff },
		releasing: func() {
			select {
			case err := <-served:
				t.Errorf("the server has ended (%v) before the message was given back", err)
				served <- err
			case <-time.After(200 * time.Millisecond): // It had the time to end too early.
			}
		},
	}
	logger := slog.New(slog.DiscardHandler)
	s := &server{api: newStubAPI(t, backend, logger), logger: logger, drainTimeout: time.Millisecond}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- s.serve(ctx, listener) }()
	go func() {
		defer close(cutOff)
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+listener.Addr().String()+"/queues/orders/claim", http.NoBody)
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
		}
	}()
	<-claiming
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if backend.released.Load() != 1 {
		t.Error("the message was not given back")
	}
}
