package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

const (
	// patience bounds every wait; none is expected to take long.
	patience = 60 * time.Second
	interval = 10 * time.Millisecond
	schema   = "deadletter"
	// replayLimit is more than any test replays.
	replayLimit = 100
)

// API is one process of the queue API. It keeps its address and its database across restarts.
type API struct {
	binary, database, address string
	flags                     []string

	mu      sync.Mutex
	process *os.Process
	exited  chan error
	log     bytes.Buffer
}

// freeAddress is one that nobody listens on, a moment ago at least.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// URL is where the API is reached.
func (a *API) URL() string { return "http://" + a.address }

func (a *API) environment() []string {
	return append(os.Environ(), "DEADLETTER_DATABASE_URL="+a.database, "DEADLETTER_SCHEMA="+schema)
}

func (a *API) migrate(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, a.binary, "migrate")
	cmd.Env = a.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("migrate: %w\n%s", err, out)
	}
	return nil
}

// Start starts the process, after the one before has ended, and waits until it is ready.
func (a *API) Start(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.process != nil {
		return errors.New("the API runs already")
	}
	cmd := exec.Command(a.binary, append([]string{"api", "--listen", a.address}, a.flags...)...)
	cmd.Env = a.environment()
	cmd.Stderr = &a.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan error, 1)
	a.process, a.exited = cmd.Process, exited
	go func() { exited <- cmd.Wait() }()
	return a.awaitReady(ctx)
}

func (a *API) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if a.isReady(ctx) {
			return nil
		}
		select {
		case <-ticker.C:
		case err := <-a.exited:
			a.process = nil
			return fmt.Errorf("the API ended before it was ready: %w\n%s", err, a.log.String())
		case <-ctx.Done():
			return fmt.Errorf("the API is not ready: %w", ctx.Err())
		}
	}
}

func (a *API) isReady(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL()+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// Kill9 ends the process without a chance to do anything. A process that has ended is left alone.
func (a *API) Kill9() error {
	if err := a.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the API: %w", err)
	}
	return nil
}

// Drain asks the process to end, and returns an error when it does not end well.
func (a *API) Drain() error {
	if err := a.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("drain the API: %w", err)
	}
	return nil
}

func (a *API) signal(signal syscall.Signal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.process == nil {
		return nil
	}
	if err := a.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-a.exited:
		a.process = nil
		if signal == syscall.SIGKILL {
			return nil
		}
		return err
	case <-time.After(patience):
		return errors.New("the process does not end")
	}
}

// Log is what the process has logged. It must be asked when the process has ended.
func (a *API) Log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.String()
}

// Declare declares a queue as a Queue resource would. change is applied to the default settings.
func (a *API) Declare(ctx context.Context, queue string, change func(*message.Settings)) error {
	settings := message.DefaultSettings()
	change(&settings)
	return a.withStore(ctx, func(db *store.Store) error {
		_, err := db.DeclareQueue(ctx, queue, store.Owner{Namespace: "default", Name: "declared"}, settings)
		return err
	})
}

// Replay replays all dead letters of a queue as a Replay resource would. payload takes the place of theirs, unless it
// is empty.
func (a *API) Replay(ctx context.Context, queue, runID, payload string) error {
	var edit store.Edit
	if payload != "" {
		edit = func(message.Message) ([]byte, error) { return []byte(payload), nil }
	}
	return a.withStore(ctx, func(db *store.Store) error {
		run, _, err := db.StartRun(ctx, store.RunSpec{
			Key:  store.RunKey{Queue: queue, Namespace: "default", Name: "replay", RunID: runID},
			Hash: runID, Mode: store.RunExecute, MaxMessages: replayLimit, MaxReplaysPerMessage: replayLimit,
		})
		if err != nil {
			return err
		}
		_, err = db.StepRun(ctx, run.ID, replayLimit, edit)
		return err
	})
}

// withStore does what the operator does beside the API.
func (a *API) withStore(ctx context.Context, do func(*store.Store) error) error {
	db, err := store.Open(ctx, store.Options{DatabaseURL: a.database, Schema: schema, MaxConns: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	return do(db)
}
