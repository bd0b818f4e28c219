package queueapi

import (
	"errors"
	"net/http"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

type queueJSON struct {
	Name string `json:"name"`
	// Declared says whether a Queue resource manages the queue; DeclaredBy names it.
	Declared   bool         `json:"declared"`
	DeclaredBy *ownerJSON   `json:"declared_by"`
	Settings   settingsJSON `json:"settings"`
	// CircuitBreaker is null when the queue has none.
	CircuitBreaker *breakerStateJSON `json:"circuit_breaker"`
	Depth          depthJSON         `json:"depth"`
	// The ages are in seconds by the database's clock; null when there is no such message.
	OldestReadyAge *float64  `json:"oldest_ready_age_seconds"`
	OldestDeadAge  *float64  `json:"oldest_dead_age_seconds"`
	ObservedAt     time.Time `json:"observed_at"`
	CreatedAt      time.Time `json:"created_at"`
}

type ownerJSON struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type settingsJSON struct {
	MaxRetries               int         `json:"max_retries"`
	Backoff                  backoffJSON `json:"backoff"`
	VisibilityTimeoutSeconds float64     `json:"visibility_timeout_seconds"`
	MaxDeliveries            int         `json:"max_deliveries"`
	// MessageTTLSeconds and MaxLength are null when there is no such limit.
	MessageTTLSeconds *float64           `json:"message_ttl_seconds"`
	MaxLength         *int64             `json:"max_length"`
	Overflow          message.Overflow   `json:"overflow"`
	State             message.QueueState `json:"state"`
	Retention         retentionJSON      `json:"retention"`
	CircuitBreaker    *breakerJSON       `json:"circuit_breaker"`
}

// breakerStateJSON is what a circuit breaker lets through, since when, and when an open one lets some messages through.
type breakerStateJSON struct {
	State     message.BreakerState `json:"state"`
	ChangedAt time.Time            `json:"changed_at"`
	OpenUntil *time.Time           `json:"open_until"`
}

type breakerJSON struct {
	WindowSeconds    float64 `json:"window_seconds"`
	FailurePercent   int     `json:"failure_percent"`
	MinSample        int     `json:"min_sample"`
	OpenSeconds      float64 `json:"open_seconds"`
	HalfOpenMessages int     `json:"half_open_messages"`
}

func newBreakerJSON(b *message.Breaker) *breakerJSON {
	if b.Window == 0 {
		return nil
	}
	return &breakerJSON{
		WindowSeconds: b.Window.Seconds(), FailurePercent: b.FailurePercent, MinSample: b.MinSample,
		OpenSeconds: b.OpenFor.Seconds(), HalfOpenMessages: b.Probes,
	}
}

type backoffJSON struct {
	InitialSeconds float64 `json:"initial_seconds"`
	FactorPercent  int     `json:"factor_percent"`
	MaxSeconds     float64 `json:"max_seconds"`
	JitterPercent  int     `json:"jitter_percent"`
}

type retentionJSON struct {
	SucceededSeconds float64            `json:"succeeded_seconds"`
	DeadSeconds      float64            `json:"dead_seconds"`
	OnDeadExpiry     message.DeadExpiry `json:"on_dead_expiry"`
}

type depthJSON struct {
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	Succeeded  int64 `json:"succeeded"`
	Dead       int64 `json:"dead"`
}

type queuePageJSON struct {
	Queues     []queueJSON `json:"queues"`
	Count      int         `json:"count"`
	NextCursor *string     `json:"next_cursor"`
}

// listQueues answers a page of queues by name.
func (a *API) listQueues(c *call) error {
	q := params{values: c.query}
	after, limit := q.queueCursor(), q.limit()
	if err := q.err(); err != nil {
		return err
	}
	// One more than asked for tells whether there is another page.
	queues, err := a.backend.Queues(c.r.Context(), after, limit+1)
	if err != nil {
		return err
	}
	var next *string
	if len(queues) > limit {
		queues = queues[:limit]
		cursor := queueCursor(queues[limit-1].Name)
		next = &cursor
	}
	answer := queuePageJSON{Queues: make([]queueJSON, len(queues)), Count: len(queues), NextCursor: next}
	for i := range queues {
		answer.Queues[i] = newQueueJSON(&queues[i])
	}
	return c.answer(http.StatusOK, answer)
}

// getQueue answers one queue.
func (a *API) getQueue(c *call) error {
	info, err := a.backend.Queue(c.r.Context(), c.queue)
	if errors.Is(err, store.ErrNotFound) {
		return noSuchQueue()
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, newQueueJSON(&info))
}

func noSuchQueue() error {
	return problemNotFound("There is no queue of this name: nobody declared it or sent a message to it.")
}

// whyNotFound tells what is missing behind a path that names a message: the queue, or the message.
func (a *API) whyNotFound(c *call) error {
	switch _, err := a.backend.Queue(c.r.Context(), c.queue); {
	case errors.Is(err, store.ErrNotFound):
		return noSuchQueue()
	case err != nil:
		return err
	default:
		return store.ErrNotFound
	}
}

func newQueueJSON(info *store.QueueInfo) queueJSON {
	view := queueJSON{
		Name:     info.Name,
		Declared: info.Declared,
		Settings: newSettingsJSON(&info.Settings),
		Depth: depthJSON{
			Pending: info.Depth.Pending, Processing: info.Depth.Processing,
			Succeeded: info.Depth.Succeeded, Dead: info.Depth.Dead,
		},
		OldestReadyAge: age(info.Depth.OldestReadyAt, info.Depth.ObservedAt),
		OldestDeadAge:  age(info.Depth.OldestDeadAt, info.Depth.ObservedAt),
		ObservedAt:     info.Depth.ObservedAt.UTC(),
		CreatedAt:      info.CreatedAt.UTC(),
	}
	if info.Settings.Breaker.Window > 0 {
		view.CircuitBreaker = &breakerStateJSON{info.Breaker.State, info.Breaker.ChangedAt, info.Breaker.OpenUntil}
	}
	if info.Declared {
		view.DeclaredBy = &ownerJSON{Namespace: info.Owner.Namespace, Name: info.Owner.Name}
	}
	return view
}

func newSettingsJSON(s *message.Settings) settingsJSON {
	return settingsJSON{
		MaxRetries: s.MaxRetries,
		Backoff: backoffJSON{
			InitialSeconds: s.Backoff.Initial.Seconds(), FactorPercent: s.Backoff.FactorPercent,
			MaxSeconds: s.Backoff.Max.Seconds(), JitterPercent: s.Backoff.JitterPercent,
		},
		VisibilityTimeoutSeconds: s.VisibilityTimeout.Seconds(),
		MaxDeliveries:            s.MaxDeliveries,
		MessageTTLSeconds:        limitOrNil(s.MessageTTL.Seconds()),
		MaxLength:                limitOrNil(s.MaxLength),
		Overflow:                 s.Overflow,
		State:                    s.State,
		Retention: retentionJSON{
			SucceededSeconds: s.Retention.Succeeded.Seconds(), DeadSeconds: s.Retention.Dead.Seconds(),
			OnDeadExpiry: s.Retention.OnDeadExpiry,
		},
		CircuitBreaker: newBreakerJSON(&s.Breaker),
	}
}

// limitOrNil is null for a limit of 0, which is none.
func limitOrNil[T int64 | float64](limit T) *T {
	if limit == 0 {
		return nil
	}
	return &limit
}

// age is the time from since to now in seconds, never negative.
func age(since *time.Time, now time.Time) *float64 {
	if since == nil {
		return nil
	}
	seconds := max(now.Sub(*since).Seconds(), 0)
	return &seconds
}
