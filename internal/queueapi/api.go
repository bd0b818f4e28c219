package queueapi

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options says how to build an API.
type Options struct {
	Backend Backend
	Logger  *slog.Logger
	Limits  Limits
	// RequireLeaseToken refuses calls on a lease that carry no token.
	RequireLeaseToken bool
	// Guard decides who may do what; nil lets everyone do everything.
	Guard Guard
	// Version is shown in build_info.
	Version string
	// Now is the clock of measurements; nil uses the system's. Messages live by the database's clock.
	Now func() time.Time
	// Jitter returns random numbers in [0, 1) that spread polling; nil uses math/rand.
	Jitter func() float64
}

// API answers the routes of the data plane. It is built by New and must be closed.
type API struct {
	backend      Backend
	logger       *slog.Logger
	limits       Limits
	requireToken bool
	guard        Guard
	now          func() time.Time

	hub      *hub
	bodies   *budget
	slots    slots
	reads    slots
	polls    slots
	metrics  *metrics
	health   *health
	draining atomic.Bool
	handler  http.Handler
}

// New builds an API. It does not touch the database.
func New(options Options) (*API, error) {
	limits := options.Limits.withDefaults()
	if err := limits.validate(); err != nil {
		return nil, err
	}
	jitter := options.Jitter
	if jitter == nil {
		jitter = rand.Float64
	}
	now := options.Now
	if now == nil {
		now = time.Now //nolint:forbidigo // the one place where the system's clock comes in
	}
	a := &API{
		backend:      options.Backend,
		logger:       options.Logger,
		limits:       limits,
		requireToken: options.RequireLeaseToken,
		guard:        options.Guard,
		now:          now,
		hub:          newHub(jitter, options.Backend.ReadyQueues),
		bodies:       newBudget(limits.maxEnqueueBytes()),
		slots:        make(slots, limits.MaxConcurrentRequests),
		reads:        make(slots, maxReads(options.Backend.PoolStats().Max)),
		polls:        make(slots, limits.MaxLongPolls),
		health:       newHealth(options.Backend, now),
	}
	a.metrics = newMetrics(prometheus.NewRegistry(), options.Backend, a.hub, options.Version)
	a.handler = a.newHandler()
	return a, nil
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Drain makes readiness fail and ends all long polls; requests are still answered.
func (a *API) Drain() {
	a.draining.Store(true)
	a.hub.close()
}
