package blackbox_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/pgtest"
)

// patience bounds every wait of the tests; none is expected to take long.
const patience = 90 * time.Second

// startPostgres starts a server that keeps what it has acknowledged, and migrates it with the binary.
func startPostgres(t *testing.T) *pgtest.Server {
	t.Helper()
	db, err := pgtest.Start(t.Context(), pgtest.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Stop(); err != nil {
			t.Errorf("stop Postgres: %v", err)
		}
	})
	migrate := exec.CommandContext(t.Context(), binary, "migrate")
	migrate.Env = environment(db)
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	return db
}

func environment(db *pgtest.Server) []string {
	return append(os.Environ(), "DEADLETTER_DATABASE_URL="+db.URL("postgres"), "DEADLETTER_SCHEMA=deadletter")
}

// api is one process of the data plane. It keeps its address across restarts.
type api struct {
	t       *testing.T
	db      *pgtest.Server
	address string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan error
	log    bytes.Buffer
}

func startAPI(t *testing.T, db *pgtest.Server) *api {
	t.Helper()
	a := &api{t: t, db: db, address: freeAddress(t)}
	a.start()
	t.Cleanup(func() {
		a.kill9()
		if t.Failed() {
			t.Logf("log of the API:\n%s", a.log.Bytes()[max(0, a.log.Len()-8000):])
		}
	})
	a.awaitReady()
	return a
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (a *api) start() {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	// Not bound to the test's context, which ends before the clean-up that has to see the process end.
	a.cmd = exec.Command(binary, "api", "--listen", a.address)
	a.cmd.Env = environment(a.db)
	a.cmd.Stderr = &a.log
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	exited := make(chan error, 1)
	a.exited = exited
	go func(cmd *exec.Cmd) { exited <- cmd.Wait() }(a.cmd)
}

// signal sends a signal and returns how the process ended.
func (a *api) signal(signal os.Signal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-a.exited:
		a.exited <- err // For whoever asks again.
		return err
	case <-time.After(patience):
		return errors.New("the process does not end")
	}
}

// kill9 ends the process without a chance to do anything.
func (a *api) kill9() { _ = a.signal(syscall.SIGKILL) }

// awaitReady returns once the process answers that it is ready.
func (a *api) awaitReady() {
	a.t.Helper()
	eventually(a.t, "the API to be ready", func() bool {
		answer, err := get(a.t.Context(), "http://"+a.address+"/readyz")
		return err == nil && answer.status == http.StatusOK
	})
}

// eventually waits for a condition that another goroutine or process brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
