package apitest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/pgtest"
)

const buildTimeout = 10 * time.Minute

// Stack is the binary and a Postgres server, which any number of API processes share.
type Stack struct {
	dir string
	db  *pgtest.Server

	mu   sync.Mutex
	apis []*API
}

// Start builds the binary from the sources in root, and starts Postgres. It must be stopped.
func Start(ctx context.Context, root string) (*Stack, error) {
	dir, err := os.MkdirTemp("", "apitest-")
	if err != nil {
		return nil, err
	}
	s := &Stack{dir: dir}
	if err := s.build(ctx, root); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.db, err = pgtest.Start(ctx, pgtest.Options{}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Stack) binary() string { return filepath.Join(s.dir, "deadletter") }

func (s *Stack) build(ctx context.Context, root string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", s.binary(), "./cmd/deadletter")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// API starts a process of the queue API, with flags of its own, on a new and empty database, and waits until it is
// ready.
func (s *Stack) API(ctx context.Context, flags ...string) (*API, error) {
	name := "api_" + strings.ToLower(rand.Text()[:12])
	conn, err := pgx.Connect(ctx, s.db.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	a := &API{binary: s.binary(), flags: flags, database: s.db.URL(name), address: address}
	if err := a.migrate(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.apis = append(s.apis, a)
	s.mu.Unlock()
	return a, a.Start(ctx)
}

// Stop ends everything and removes what it left.
func (s *Stack) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, a := range s.apis {
		errs = append(errs, a.Kill9())
	}
	return errors.Join(append(errs, s.db.Stop(), os.RemoveAll(s.dir))...)
}
