package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	pollInterval = 10 * time.Millisecond
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// Server is a running Postgres server. Its methods are safe for concurrent use.
type Server struct {
	layout    layout
	options   Options
	account   account
	bin       string
	details   details
	temporary bool
	watchdog  *watchdog

	mu      sync.Mutex
	process *process
}

// Start creates a server and waits until it answers.
func Start(ctx context.Context, options Options) (*Server, error) {
	bin, err := locate()
	if err != nil {
		return nil, err
	}

	account, err := unprivileged()
	if err != nil {
		return nil, err
	}

	if options.Detach && options.Dir == "" {
		return nil, errors.New("a detached Postgres server needs a folder")
	}

	server := &Server{options: options, account: account, bin: bin}
	if err := server.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Postgres: %w", err), server.Stop())
	}

	return server, nil
}

func (s *Server) start(ctx context.Context) error {
	if err := s.prepareDir(); err != nil {
		return err
	}

	if running := runningIn(s.layout); running != nil {
		return fmt.Errorf("%s already runs as process %d", s.layout.dir, running.pid)
	}

	if !s.options.Detach {
		dog, err := startWatchdog(s.account, watched{
			dir: s.layout.dir, temporary: s.temporary, pidFile: s.layout.postmaster(), argument: s.layout.data(),
		})
		if err != nil {
			return err
		}

		s.watchdog = dog
	}

	if err := s.prepareData(); err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	return s.launch(ctx)
}

// prepareDir creates the server's folder and gives it to the account.
func (s *Server) prepareDir() error {
	if s.options.Dir == "" {
		made, err := os.MkdirTemp("", "pgtest-")
		if err != nil {
			return err
		}

		s.layout, s.temporary = layout{dir: made}, true

		return s.account.own(made)
	}

	dir, err := filepath.Abs(s.options.Dir)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	s.layout = layout{dir: dir}

	return errors.Join(s.account.own(dir), s.account.canEnter(filepath.Dir(dir)))
}

// prepareData initialises the cluster unless the folder already holds one.
func (s *Server) prepareData() error {
	found, exists, err := s.layout.load()
	if err != nil {
		return err
	}

	if exists {
		s.details = found

		return nil
	}

	// Without its details file a cluster is the remainder of an interrupted initialisation.
	if err := os.RemoveAll(s.layout.data()); err != nil {
		return err
	}

	s.details.Password = rand.Text()
	if s.details.Port, err = freePort(); err != nil {
		return err
	}

	if err := s.layout.initialise(s.account, s.bin, s.details.Password); err != nil {
		return err
	}

	return s.layout.save(s.details)
}

// launch runs the server and waits until it accepts connections. The caller holds the lock.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	for {
		// The port is known to be free a moment before the start, but another process may still win the race.
		if err := wait(ctx, func() bool { return portFree(s.details.Port) }); err != nil {
			return fmt.Errorf("port %d stays in use: %w", s.details.Port, err)
		}

		started, err := startProcess(s.account, s.layout, s.bin, s.options, s.details.Port)
		if err != nil {
			return err
		}

		s.process = started

		ready := wait(ctx, func() bool { return !started.alive() || s.answers(ctx) })
		if ready == nil && started.alive() {
			return nil
		}

		if !started.alive() && ctx.Err() == nil && (!portFree(s.details.Port) || s.heldByTheDead()) {
			continue
		}

		return fmt.Errorf("the server does not answer: %w", errors.Join(ready, s.logError()))
	}
}

// answers reports whether a client can connect.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return false
	}

	return conn.Close(ctx) == nil
}

// heldByTheDead tells that the server gave up because the kernel was still taking down what a killed one had: it is a
// matter of moments.
func (s *Server) heldByTheDead() bool {
	const complaint = "pre-existing shared memory block"

	return strings.Contains(s.tail(func(line string) bool { return strings.Contains(line, complaint) }), complaint)
}

// URL returns the address of one of the server's databases, for the superuser.
func (s *Server) URL(database string) string {
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.details.Password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.details.Port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}

	return address.String()
}

// Dir returns the folder that holds the data and the log.
func (s *Server) Dir() string { return s.layout.dir }

// Stop shuts the server down and removes its folder if that is temporary. Stopping twice is harmless.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	// Data that is about to be removed needs no shutdown checkpoint.
	signal := syscall.SIGINT
	if s.temporary {
		signal = syscall.SIGQUIT
	}

	err := s.shutDown(signal)

	if s.temporary {
		err = errors.Join(err, os.RemoveAll(s.layout.dir))
	}

	if s.watchdog != nil {
		err = errors.Join(err, s.watchdog.release())
		s.watchdog = nil
	}

	return err
}

// shutDown ends the server process and waits for its end. The caller holds the lock.
func (s *Server) shutDown(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}

	stopping := s.process
	s.process = nil

	if err := stopping.signal(signal); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()

	if wait(ctx, func() bool { return !stopping.alive() }) != nil {
		return stopping.kill()
	}

	return nil
}

// Kill9 sends SIGKILL to the server and all its children, as a crash would end them.
func (s *Server) Kill9() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.process == nil {
		return errors.New("the Postgres server is not running")
	}

	killed := s.process
	s.process = nil

	return killed.kill()
}

// Restart starts the server again on the same data and the same port, after shutting it down if it runs.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.shutDown(syscall.SIGINT); err != nil {
		return fmt.Errorf("restart Postgres: %w", err)
	}

	if err := s.launch(ctx); err != nil {
		return fmt.Errorf("restart Postgres: %w", err)
	}

	return nil
}

// Attach returns the running server that was started with [Options.Detach] in dir, or an error when none runs there.
func Attach(dir string) (*Server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}

	place := layout{dir: dir}

	found, exists, err := place.load()
	if err != nil {
		return nil, fmt.Errorf("attach to Postgres: %w", err)
	}

	running := runningIn(place)
	if !exists || running == nil {
		return nil, fmt.Errorf("attach to Postgres: no server runs in %s", dir)
	}

	bin, err := locate()
	if err != nil {
		return nil, err
	}

	account, err := unprivileged()
	if err != nil {
		return nil, err
	}

	return &Server{
		layout: place, options: Options{Dir: dir, Detach: true}, account: account, bin: bin,
		details: found, process: running,
	}, nil
}

// wait polls until the condition holds or the context ends.
func wait(ctx context.Context, condition func() bool) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()

	for !condition() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}

	return nil
}
