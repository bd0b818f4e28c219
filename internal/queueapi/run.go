package queueapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"deadletter.dev/deadletter/internal/queueapi/auth"
	"deadletter.dev/deadletter/internal/store"
)

// Config says how to run the data plane as a process.
type Config struct {
	// DatabaseURL is the Postgres connection string, and Pooler what it leads to; Schema holds the product's tables;
	// MaxConns bounds the pool, 0 takes the store's default.
	DatabaseURL string
	Pooler      store.Pooler
	Schema      string
	MaxConns    int32
	// Listen is the address to listen on, as host:port.
	Listen string
	// Auth says how to decide who may do what; nil lets everyone do everything.
	Auth *AuthConfig
	// DenyUndeclaredQueues refuses messages for queues that no Queue resource declares.
	DenyUndeclaredQueues bool
	// RelaxedAcknowledgements is as in store.Options.
	RelaxedAcknowledgements bool
	// RequireLeaseToken refuses calls on a lease that carry no token.
	RequireLeaseToken bool
	Limits            Limits
	// DrainDelay is how long requests are still accepted after readiness has begun to fail, so that load balancers notice.
	DrainDelay time.Duration
	// DrainTimeout bounds the wait for requests under way; 0 means 25 s.
	DrainTimeout time.Duration
	// Version is shown in build_info.
	Version string
	// Listening, when set, is told the address once connections are accepted.
	Listening func(address net.Addr)
}

// AuthConfig makes Kubernetes decide who may do what; see package auth.
type AuthConfig struct {
	// REST reaches the Kubernetes API.
	REST *rest.Config
	// Namespace is the Broker's.
	Namespace string
}

// Bounds of one connection. Long polls end well within the write timeout.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 120 * time.Second
	maxHeaderBytes    = 64 << 10
	// abortTimeout is how long requests that were cut off may take to give their messages back.
	abortTimeout = 5 * time.Second
)

// Run serves the data plane until ctx ends, and then drains: readiness fails, long polls end with nothing, requests
// under way are finished, and only then the database is let go.
//
// It returns an error that matches store.ErrSchema when the database has another schema version. A database that does
// not answer is waited for instead, with readiness failing meanwhile.
func Run(ctx context.Context, config Config, logger *slog.Logger) error {
	db, err := store.Open(ctx, store.Options{
		DatabaseURL:          config.DatabaseURL,
		Pooler:               config.Pooler,
		Schema:               config.Schema,
		DenyUndeclaredQueues: config.DenyUndeclaredQueues,
		MaxConns:             config.MaxConns,
		ApplicationName:      "deadletter api",

		RelaxedAcknowledgements: config.RelaxedAcknowledgements,
	})
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	defer db.Close()
	guard, err := newGuard(config.Auth, db)
	if err != nil {
		return err
	}
	api, err := New(Options{
		Backend: db, Logger: logger, Limits: config.Limits, RequireLeaseToken: config.RequireLeaseToken,
		Guard: guard, Version: config.Version,
	})
	if err != nil {
		return err
	}
	if err := api.CheckSchema(ctx); errors.Is(err, store.ErrSchema) {
		return fmt.Errorf("refuse to start: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", config.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if config.Listening != nil {
		config.Listening(listener.Addr())
	}
	logger.InfoContext(ctx, "listening", "address", listener.Addr().String(), "version", config.Version)
	s := &server{api: api, logger: logger, drainDelay: config.DrainDelay, drainTimeout: config.DrainTimeout}
	return s.serve(ctx, listener)
}

// newGuard is the guard that the configuration asks for, or nil.
func newGuard(config *AuthConfig, backend Backend) (Guard, error) {
	if config == nil {
		return nil, nil //nolint:nilnil // no guard is a choice
	}
	guard, err := auth.NewKubernetes(auth.Options{
		REST: config.REST, Namespace: config.Namespace,
		OwnerOf: func(ctx context.Context, queue string) (auth.Owner, bool, error) {
			info, err := backend.Queue(ctx, queue)
			if errors.Is(err, store.ErrNotFound) {
				return auth.Owner{}, false, nil
			}
			return auth.Owner(info.Owner), info.Declared, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	return guard, nil
}

// server is one running process of the data plane.
type server struct {
	api          *API
	logger       *slog.Logger
	drainDelay   time.Duration
	drainTimeout time.Duration
	// handling counts requests in handlers, which http.Server forgets when it closes connections.
	handling sync.WaitGroup
}

func (s *server) serve(ctx context.Context, listener net.Listener) error {
	httpServer := &http.Server{
		Handler:           http.HandlerFunc(s.handle),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
	}
	// Maintenance goes on until the last request is answered.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.maintain(background); err != nil {
			failed <- err
		}
	})
	served := make(chan error, 1)
	group.Go(func() { served <- httpServer.Serve(listener) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-served:
		err = fmt.Errorf("serve: %w", err)
	}
	s.drain(background, httpServer)
	stopBackground()
	group.Wait()
	return err
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	s.handling.Add(1)
	defer s.handling.Done()
	s.api.ServeHTTP(w, r)
}

// maintain waits until the schema has been seen to be right, and then runs the background loops until ctx ends. It
// returns an error only for a schema that is wrong.
func (s *server) maintain(ctx context.Context) error {
	for logged := false; ; {
		err := s.api.CheckSchema(ctx)
		if err == nil {
			break
		}
		if errors.Is(err, store.ErrSchema) {
			return fmt.Errorf("refuse to serve: %w", err)
		}
		if !logged {
			s.logger.WarnContext(ctx, "waiting for the database", "error", err)
			logged = true
		}
		if !pause(ctx, readyFor) {
			return nil
		}
	}
	s.api.maintenance().run(ctx)
	return nil
}

// maintenance are the background loops of this API's store.
func (a *API) maintenance() *maintenance {
	return &maintenance{
		backend: a.backend, hub: a.hub, logger: a.logger, metrics: a.metrics, jitter: a.hub.jitter, pause: pause,
	}
}

// drain stops taking requests and waits for those under way, in bounded time.
func (s *server) drain(ctx context.Context, httpServer *http.Server) {
	timeout := s.drainTimeout
	if timeout == 0 {
		timeout = defaultDrainTimeout
	}
	s.logger.InfoContext(ctx, "draining", "timeout", timeout)
	s.api.Drain()
	pause(ctx, s.drainDelay)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := httpServer.Shutdown(ctx); err != nil {
		s.logger.WarnContext(ctx, "requests were cut off", "error", err)
		_ = httpServer.Close() // Shutdown has closed the listener; this closes what is left.
	}
	s.awaitHandlers(abortTimeout)
	s.logger.InfoContext(ctx, "drained")
}

// awaitHandlers waits for handlers whose connections are closed: they give claimed messages back.
func (s *server) awaitHandlers(timeout time.Duration) {
	done := make(chan struct{})
	go func() {
		s.handling.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(timeout):
	}
}
