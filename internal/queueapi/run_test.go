package queueapi_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

// process is queueapi.Run in the background.
type process struct {
	url  string
	stop context.CancelFunc
	done chan error
}

func startProcess(t *testing.T, config queueapi.Config) *process {
	t.Helper()
	listening := make(chan net.Addr, 1)
	config.Schema, config.Listen = schema, "127.0.0.1:0"
	config.Listening = func(address net.Addr) { listening <- address }
	ctx, stop := context.WithCancel(t.Context())
	p := &process{stop: stop, done: make(chan error, 1)}
	go func() { p.done <- queueapi.Run(ctx, config, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(stop)
	select {
	case address := <-listening:
		p.url = "http://" + address.String()
	case err := <-p.done:
		t.Fatalf("run: %v", err)
	}
	return p
}

func migrated(t *testing.T) string {
	t.Helper()
	dbURL := pgtest.Database(t)
	if _, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: dbURL, Schema: schema}); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return dbURL
}

// awaitReady returns once the process is ready.
func (p *process) awaitReady(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(30 * time.Second)
	for {
		answer, err := tryGet(t, p.url+"/readyz")
		if err == nil && answer.status == http.StatusOK {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("the process does not become ready: %s", get(t, p.url+"/readyz"))
		}
	}
}

func TestRunServesSweepsAndDrains(t *testing.T) {
	t.Parallel()
	p := startProcess(t, queueapi.Config{DatabaseURL: migrated(t)})
	p.awaitReady(t)
	post(t, p.url+"/queues/orders/messages", http.Header{}, `{"payload":"x","max_retries":1}`).want(201)
	post(t, p.url+"/queues/orders/claim", http.Header{}, `{"visibility_timeout_seconds":1}`).want(200)
	// The sweeper lets the lease expire, and retries are used up.
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(get(t, p.url+"/queues/orders/messages"), `"status":"dead"`) {
		if time.Now().After(deadline) {
			t.Fatal("the lease does not expire")
		}
	}
	polling := make(chan *response, 1)
	go func() { polling <- post(t, p.url+"/queues/orders/claim", http.Header{}, `{"wait_seconds":20}`) }()
	for !strings.Contains(get(t, p.url+"/metrics"), "\ndeadletter_long_polls 1\n") {
		if time.Now().After(deadline) {
			t.Fatal("the long poll does not wait")
		}
	}
	start := time.Now()
	p.stop()
	if got := <-polling; got.status != 200 || !strings.Contains(string(got.body), `"claimed":false`) {
		t.Errorf("the long poll answers %d %s", got.status, got.body)
	}
	if err := <-p.done; err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("draining took %s", took)
	}
	if _, err := tryGet(t, p.url+"/healthz"); err == nil {
		t.Error("the process still listens")
	}
}

func TestRunRefusesAnotherSchemaVersion(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T) string{
		"never migrated": func(t *testing.T) string { t.Helper(); return pgtest.Database(t) },
	} {
		config := queueapi.Config{DatabaseURL: prepare(t), Schema: schema, Listen: "127.0.0.1:0"}
		err := queueapi.Run(t.Context(), config, slog.New(slog.DiscardHandler))
		if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "deadletter migrate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	db, err := pgtest.Start(t.Context(), pgtest.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Stop() })
	dbURL := db.URL("postgres")
	if _, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: dbURL, Schema: schema}); err != nil {
		t.Fatal(err)
	}
	if err := db.Kill9(); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, queueapi.Config{DatabaseURL: dbURL})
	post(t, p.url+"/queues/orders/messages", http.Header{}, `{"payload":"x"}`).problem(503, "unavailable")
	if err := db.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.awaitReady(t)
	post(t, p.url+"/queues/orders/messages", http.Header{}, `{"payload":"x"}`).want(201)
}

func TestRunRefusesBadConfigs(t *testing.T) {
	t.Parallel()
	dbURL := migrated(t)
	for name, change := range map[string]func(*queueapi.Config){
		"payload limit": func(c *queueapi.Config) { c.Limits.MaxPayloadBytes = -1 },
		"requests":      func(c *queueapi.Config) { c.Limits.MaxConcurrentRequests = -1 },
		"address":       func(c *queueapi.Config) { c.Listen = "nowhere:none" },
		"schema":        func(c *queueapi.Config) { c.Schema = "No Schema" },
		"database":      func(c *queueapi.Config) { c.DatabaseURL = "postgres://%zz" },
	} {
		config := queueapi.Config{DatabaseURL: dbURL, Schema: schema, Listen: "127.0.0.1:0"}
		change(&config)
		if err := queueapi.Run(t.Context(), config, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestRunLeavesNothingBehind looks at all goroutines, so it must not run beside other tests.
//
//nolint:paralleltest // as above
func TestRunLeavesNothingBehind(t *testing.T) {
	dbURL := migrated(t)
	before := goleak.IgnoreCurrent()
	for range 3 {
		p := startProcess(t, queueapi.Config{DatabaseURL: dbURL})
		p.awaitReady(t)
		post(t, p.url+"/queues/orders/claim", http.Header{}, `{"wait_seconds":1}`).want(200)
		p.stop()
		if err := <-p.done; err != nil {
			t.Fatal(err)
		}
		http.DefaultClient.CloseIdleConnections()
	}
	goleak.VerifyNone(t, before)
}

// tryGet is a request that may fail.
func tryGet(t *testing.T, url string) (*response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	return read(t, answer), nil
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := tryGet(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer.body)
}
