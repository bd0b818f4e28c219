package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/pgtest"
)

// Settings are what the one Postgres server of a run is started with, the same for every system that uses it. What is
// not here has Postgres's own default. An acknowledged commit survives SIGKILL of the server: fsync, full_page_writes
// and synchronous_commit are on.
var Settings = map[string]string{
	"shared_buffers":               "512MB",
	"max_wal_size":                 "8GB",
	"min_wal_size":                 "1GB",
	"checkpoint_timeout":           "15min",
	"checkpoint_completion_target": "0.9",
	"max_connections":              "300",
	"effective_cache_size":         "4GB",
	"random_page_cost":             "1.1",
	"shared_preload_libraries":     "pg_stat_statements",
	"pg_stat_statements.track":     "all",
}

// Postgres is a throw-away server.
type Postgres struct {
	server *pgtest.Server
	pid    int
}

// StartPostgres starts one in dir, or in a temporary folder.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	server, err := pgtest.Start(ctx, pgtest.Options{Durable: true, Settings: Settings})
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(server.Dir(), "data", "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return nil, err
	}
	return &Postgres{server: server, pid: pid}, nil
}

// PID is the process id of the postmaster.
func (p *Postgres) PID() int { return p.pid }

// URL is the address of a database, for the superuser.
func (p *Postgres) URL(database string) string { return p.server.URL(database) }

// Stop ends the server and removes its data.
func (p *Postgres) Stop() error { return p.server.Stop() }

// CreateDatabase makes an empty database and starts everyone at a checkpoint.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) error {
	quoted := pgx.Identifier{name}.Sanitize()
	return p.exec(ctx, "postgres", "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)", "CREATE DATABASE "+quoted,
		"CHECKPOINT")
}

// DropDatabase removes a database and ends whoever uses it.
func (p *Postgres) DropDatabase(ctx context.Context, name string) error {
	return p.exec(ctx, "postgres", "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

// Watch makes the statistics of statements readable in a database, which costs nobody anything more.
func (p *Postgres) Watch(ctx context.Context, database string) error {
	return p.exec(ctx, database, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
}

func (p *Postgres) exec(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, p.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
