package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/hack/bench/internal/measure"
	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/server"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

// Options say how long and how much.
type Options struct {
	// Binary is the product's.
	Binary string
	// Out is the folder for what is written beside the results.
	Out string
	// Cache is the folder for what is fetched once, such as npm packages.
	Cache string
	// Measure is how long a figure is measured, Warm how long before that.
	Measure, Warm time.Duration
	// Pin is how long a transaction holds the horizon in P4.
	Pin time.Duration
	// Pending and Dead are the backlog of P3 and P6.
	Pending, Dead int
	// IdleQueues and LongPolls are those of P8.
	IdleQueues, LongPolls int
	// BatchClients is how many clients send and claim batches.
	BatchClients int
	// Only names the peers to run; none means all.
	Only map[string]bool
}

// Bench is where scenarios run: one Postgres server for everyone.
type Bench struct {
	Options

	*report.Progress

	postgres *server.Postgres
	// failures are the systems that could not be measured.
	failures []error
	backlog  *backlog
}

// New starts the server.
func New(ctx context.Context, options Options, progress *report.Progress) (*Bench, error) {
	postgres, err := server.StartPostgres(ctx)
	if err != nil {
		return nil, err
	}
	return &Bench{Options: options, Progress: progress, postgres: postgres}, nil
}

// Close ends what still runs and tells which systems could not be measured.
func (b *Bench) Close() error {
	var err error
	if b.backlog != nil {
		err = b.backlog.system.Close()
	}
	return errors.Join(append(b.failures, err, b.postgres.Stop())...)
}

func (b *Bench) ours() system.Kind { return system.Ours(b.Binary) }

// wants tells whether a peer is to be run.
func (b *Bench) wants(kind system.Kind) bool { return len(b.Only) == 0 || b.Only[kind.Name] }

// row runs one system; what goes wrong with it is told in its row and at the end, and the others run all the same.
func (b *Bench) row(
	ctx context.Context, kind system.Kind, role report.Role,
	run func(context.Context, system.Kind) (report.Figures, error),
) report.Row {
	row := report.Row{Name: kind.Name, About: kind.About, Role: role}
	if ctx.Err() != nil {
		row.Figures.Skipped = "interrupted"
		return row
	}
	if kind.Missing != nil {
		if row.Figures.Skipped = kind.Missing(ctx); row.Figures.Skipped != "" {
			b.Say("%s: not run: %s", kind.Name, row.Figures.Skipped)
			return row
		}
	}
	b.Step("%s: start", kind.Name)
	figures, err := run(ctx, kind)
	if ctx.Err() != nil {
		row.Figures.Skipped = "interrupted"
		return row
	}
	if err != nil {
		b.Say("%s: FAILED: %v", kind.Name, err)
		b.failures = append(b.failures, fmt.Errorf("%s: %w", kind.Name, err))
		figures = report.Figures{Skipped: "failed, see the output"}
	}
	row.Figures = figures
	return row
}

// site is a system that runs on its database.
type site struct {
	system.System

	bench      *Bench
	database   string
	onPostgres bool
	conn       *pgx.Conn
	start      measure.Rows
}

// benchDatabase is where systems run, one at a time.
const benchDatabase = "bench"

// start makes an empty database and starts the system on it.
func (b *Bench) start(ctx context.Context, kind system.Kind, clients, batch int) (*site, error) {
	return b.startOn(ctx, benchDatabase, kind, clients, batch)
}

func (b *Bench) startOn(ctx context.Context, database string, kind system.Kind, clients, batch int) (*site, error) {
	if err := b.postgres.CreateDatabase(ctx, database); err != nil {
		return nil, err
	}
	running, err := kind.Start(ctx, system.Setup{Database: b.postgres.URL(database), Clients: clients, Batch: batch})
	if err != nil {
		return nil, err
	}
	started := &site{System: running, bench: b, database: database, onPostgres: kind.Postgres}
	if err := started.observe(ctx); err != nil {
		return nil, errors.Join(err, running.Close())
	}
	return started, nil
}

func (s *site) observe(ctx context.Context) (err error) {
	if err := s.bench.postgres.Watch(ctx, s.database); err != nil {
		return err
	}
	if s.conn, err = pgx.Connect(ctx, s.bench.postgres.URL(s.database)); err != nil {
		return err
	}
	s.start, err = measure.ReadRows(ctx, s.conn)
	return err
}

// end stops the system and drops its database. Between the two, when every session has reported, it tells what the
// tables have been through since start.
func (s *site) end(ctx context.Context) (measure.Rows, error) {
	err := s.Close()
	rows, failure := measure.ReadRows(ctx, s.conn)
	rows.Killed -= s.start.Killed
	return rows, errors.Join(err, failure, s.conn.Close(ctx), s.bench.postgres.DropDatabase(ctx, s.database))
}
