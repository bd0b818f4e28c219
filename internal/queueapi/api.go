package queueapi

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

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

	hub      *hub
	slots    slots
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
	a := &API{
		backend:      options.Backend,
		logger:       options.Logger,
		limits:       limits,
		requireToken: options.RequireLeaseToken,
		guard:        options.Guard,
		hub:          newHub(jitter),
		slots:        make(slots, limits.MaxConcurrentRequests),
		polls:        make(slots, limits.MaxLongPolls),
		health:       newHealth(options.Backend),
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
