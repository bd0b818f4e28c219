package queueapi_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
)

func fused(settings *message.Settings) {
	settings.Breaker = message.Breaker{
		Window: time.Minute, FailurePercent: 100, MinSample: 2, OpenFor: 20 * time.Second, Probes: 1,
	}
}

type breakerState struct {
	CircuitBreaker *struct {
		State     string
		OpenUntil *time.Time `json:"open_until"`
	} `json:"circuit_breaker"`
	Settings struct {
		CircuitBreaker map[string]float64 `json:"circuit_breaker"`
	}
}

func (s *server) judge() {
	s.t.Helper()
	if _, err := s.store.JudgeBreakers(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func TestClaimSaysHowLongTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.declare("orders", fused)
	s.judge()
	for range 3 {
		s.enqueue("orders", payloadOf("x"))
	}
	for range 2 {
		held := s.claim("orders")
		s.do(http.MethodPost, itemPath("orders", held.ID)+"/fail", `{"error":"down","retryable":false}`).want(http.StatusOK)
	}
	s.judge()
	for _, body := range []string{"", `{"max":5}`, `{"wait_seconds":1}`} {
		answer := s.do(http.MethodPost, queuePath("orders")+"/claim", body).want(http.StatusOK)
		after, err := strconv.Atoi(answer.header.Get("Retry-After"))
		if err != nil || after < 1 || after > 20 || decode[claimed](answer).Claimed {
			t.Errorf("claim %q while the breaker is open: Retry-After %d, %v", body, after, err)
		}
	}
	got := decode[breakerState](s.do(http.MethodGet, queuePath("orders"), nil).want(http.StatusOK))
	if got.CircuitBreaker == nil || got.CircuitBreaker.State != "Open" || got.CircuitBreaker.OpenUntil == nil ||
		got.Settings.CircuitBreaker["open_seconds"] != 20 || got.Settings.CircuitBreaker["half_open_messages"] != 1 {
		t.Errorf("the queue is shown as %+v", got)
	}
}

func TestClaimOfAQueueWithoutBreakerSaysNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.enqueue("orders", payloadOf("x"))
	s.claim("orders")
	answer := s.do(http.MethodPost, queuePath("orders")+"/claim", "").want(http.StatusOK)
	if after := answer.header.Get("Retry-After"); after != "" {
		t.Errorf("Retry-After is %q", after)
	}
	got := decode[breakerState](s.do(http.MethodGet, queuePath("orders"), nil).want(http.StatusOK))
	if got.CircuitBreaker != nil || got.Settings.CircuitBreaker != nil {
		t.Errorf("the queue is shown as %+v", got)
	}
}
