package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Queue is a queue, its settings and its depth.
type Queue struct {
	Name string `json:"name"`
	// Declared says whether a Queue resource manages the queue; DeclaredBy names it.
	Declared   bool      `json:"declared"`
	DeclaredBy *Owner    `json:"declared_by,omitempty"`
	Settings   Settings  `json:"settings"`
	Depth      Depth     `json:"depth"`
	CreatedAt  time.Time `json:"created_at"`
	// CircuitBreaker is what the queue's circuit breaker lets through; nil when it has none.
	CircuitBreaker *CircuitBreaker `json:"circuit_breaker,omitempty"`
	// OldestReadyAgeSeconds is how long the oldest ready message has been ready, and OldestDeadAgeSeconds how long the
	// oldest dead letter has been dead; nil when there is none.
	OldestReadyAgeSeconds *float64 `json:"oldest_ready_age_seconds,omitempty"`
	OldestDeadAgeSeconds  *float64 `json:"oldest_dead_age_seconds,omitempty"`
	// ObservedAt is when the depth was observed.
	ObservedAt time.Time `json:"observed_at"`
}

// Owner is the Queue resource that declares a queue.
type Owner struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Depth is the number of messages by state.
type Depth struct {
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Succeeded  int64 `json:"succeeded"`
	Dead       int64 `json:"dead"`
}

// Settings are the settings of a queue.
type Settings struct {
	MaxRetries               int     `json:"max_retries"`
	Backoff                  Backoff `json:"backoff"`
	VisibilityTimeoutSeconds float64 `json:"visibility_timeout_seconds"`
	MaxDeliveries            int     `json:"max_deliveries"`
	// MessageTTLSeconds and MaxLength are nil when there is no such limit.
	MessageTTLSeconds *float64 `json:"message_ttl_seconds,omitempty"`
	MaxLength         *int64   `json:"max_length,omitempty"`
	// Overflow is Reject or DeadLetter.
	Overflow string `json:"overflow"`
	// State is Active or Paused.
	State     string    `json:"state"`
	Retention Retention `json:"retention"`
	// CircuitBreaker says when the queue hands out nothing because too much fails; nil for never.
	CircuitBreaker *CircuitBreakerSettings `json:"circuit_breaker,omitempty"`
}

// CircuitBreaker is the state of a queue's circuit breaker.
type CircuitBreaker struct {
	// State is Closed, Open or HalfOpen.
	State     string    `json:"state"`
	ChangedAt time.Time `json:"changed_at"`
	// OpenUntil is when an open one lets some messages through.
	OpenUntil time.Time `json:"open_until,omitzero"`
}

// CircuitBreakerSettings say when a queue's circuit breaker opens.
type CircuitBreakerSettings struct {
	// WindowSeconds is how far back failures count, FailurePercent how many of the messages that ended within must have
	// failed, and MinSample how many must have ended.
	WindowSeconds  float64 `json:"window_seconds"`
	FailurePercent int     `json:"failure_percent"`
	MinSample      int     `json:"min_sample"`
	// OpenSeconds is how long nothing is handed out, and HalfOpenMessages how many messages are after that.
	OpenSeconds      float64 `json:"open_seconds"`
	HalfOpenMessages int     `json:"half_open_messages"`
}

// Backoff says how long a message waits after a failure.
type Backoff struct {
	InitialSeconds float64 `json:"initial_seconds"`
	FactorPercent  int     `json:"factor_percent"`
	MaxSeconds     float64 `json:"max_seconds"`
	JitterPercent  int     `json:"jitter_percent"`
}

// Retention says how long finished messages are kept.
type Retention struct {
	SucceededSeconds float64 `json:"succeeded_seconds"`
	DeadSeconds      float64 `json:"dead_seconds"`
	// OnDeadExpiry is Delete or Keep.
	OnDeadExpiry string `json:"on_dead_expiry"`
}

// Queues walks all queues by name. An error ends the walk.
func (c *Client) Queues(ctx context.Context) iter.Seq2[*Queue, error] {
	return walk(maxPage, nil, func(query url.Values) ([]*Queue, string, error) {
		var page struct {
			Queues     []*Queue `json:"queues"`
			NextCursor string   `json:"next_cursor"`
		}
		_, err := c.do(ctx, request{method: http.MethodGet, path: "/queues", query: query, safety: readOnly}, &page)
		if err != nil {
			err = fmt.Errorf("list queues: %w", err)
		}
		return page.Queues, page.NextCursor, err
	})
}

// Queue returns one queue. It returns [ErrNotFound] when nobody declared it or sent a message to it.
func (c *Client) Queue(ctx context.Context, name string) (*Queue, error) {
	queue := new(Queue)
	_, err := c.do(ctx, request{method: http.MethodGet, path: queuePath(name, ""), safety: readOnly}, queue)
	if err != nil {
		return nil, fmt.Errorf("get queue %q: %w", name, err)
	}
	return queue, nil
}

// Purged is what a purge removed.
type Purged struct {
	Scope Status `json:"scope"`
	// Before is the bound that was used.
	Before  time.Time `json:"before"`
	Removed int64     `json:"removed"`
	// Complete says that nothing is left to remove.
	Complete bool `json:"complete"`
}

// Purge removes, for good, the messages of a queue that have had a status since before a time: pending, succeeded or
// dead ones, never those that are being processed, and no dead letter that a running Replay has selected. The zero time
// means now, by the database's clock: nothing that comes meanwhile goes with them.
//
// It goes on until nothing is left, or an error comes; it then returns what was removed by then.
func (c *Client) Purge(ctx context.Context, queue string, scope Status, before time.Time) (Purged, error) {
	total := Purged{Scope: scope, Before: before}
	for !total.Complete {
		body := struct {
			Scope  Status    `json:"scope"`
			Before time.Time `json:"before,omitzero"`
		}{scope, total.Before}
		var got Purged
		_, err := c.do(ctx, request{
			method: http.MethodPost, path: queuePath(queue, "/purge"), body: body, safety: once,
		}, &got)
		if err != nil {
			return total, fmt.Errorf("purge %s messages of %q: %w", scope, queue, err)
		}
		got.Removed += total.Removed
		total = got
	}
	return total, nil
}
