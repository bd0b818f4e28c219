package queueapi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

const (
	// readyFor is how long one look at the database answers for readiness.
	readyFor = time.Second
	// readyTimeout bounds one look at the database.
	readyTimeout = 2 * time.Second
)

// health knows whether the database answers, has this binary's schema and takes changes.
type health struct {
	prober Prober
	now    func() time.Time
	seen   atomic.Bool

	mu        sync.Mutex
	checkedAt time.Time
	err       error
}

func newHealth(prober Prober, now func() time.Time) *health { return &health{prober: prober, now: now} }

// started reports that the schema has been found right at least once, so that requests may use it.
func (h *health) started() bool { return h.seen.Load() }

// check looks at the database, or answers from a look a moment ago. Concurrent callers share one look.
func (h *health) check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.checkedAt.IsZero() && h.now().Sub(h.checkedAt) < readyFor {
		return h.err
	}
	// The answer is for others too, so it does not end with this caller.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	h.err = h.prober.CheckSchema(ctx)
	h.checkedAt = h.now()
	if h.err == nil {
		h.seen.Store(true)
	}
	return h.err
}

// CheckSchema reports whether the database answers and has this binary's schema. Until it has returned nil once, routes
// that reach queues answer 503.
func (a *API) CheckSchema(ctx context.Context) error { return a.health.check(ctx) }

type healthJSON struct {
	Status string `json:"status"`
}

// healthz says that the process runs; it says nothing of the database, whose outage a restart would not mend.
func (a *API) healthz(c *call) error { return c.answer(http.StatusOK, healthJSON{"ok"}) }

// readyz says whether requests should be sent here.
func (a *API) readyz(c *call) error {
	if a.draining.Load() {
		return problemUnavailable("The server is draining: it is about to stop.")
	}
	err := a.health.check(c.r.Context())
	switch schemaErr := new(store.SchemaError); {
	case err == nil:
		return c.answer(http.StatusOK, healthJSON{"ready"})
	case errors.As(err, &schemaErr):
		return errors.Join(problemUnavailable("The database has another schema version: "+schemaErr.Error()+"."), err)
	case errors.Is(err, store.ErrReadOnly):
		const detail = "The database takes no changes: it is a standby, or its sessions are read-only."
		return errors.Join(problemUnavailable(detail), err)
	default:
		return errors.Join(problemUnavailable("The database does not answer."), err)
	}
}
