package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"deadletter.dev/deadletter/hack/bench/internal/load"
)

// River runs in this process, as it does in its users': its clients insert by function call, not by HTTP.
var (
	// River has the settings of its own benchmark.
	River = riverKind("river", "River in process; MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms; "+
		"Insert, or InsertMany", riverConfig{workers: 2000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond})
	// RiverCopy differs in how batches are inserted.
	RiverCopy = riverKind("river COPY", "as river, with InsertManyFast, which copies and skips unique conflicts",
		riverConfig{workers: 2000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond, copying: true})
	// RiverDefaults has what its documentation shows.
	RiverDefaults = riverKind("river defaults", "River in process; MaxWorkers 100, else defaults",
		riverConfig{workers: 100})
)

type riverConfig struct {
	workers        int
	cooldown, poll time.Duration
	copying        bool
}

func riverKind(name, about string, config riverConfig) Kind {
	return Kind{
		Name: name, About: about, Postgres: true, Window: int64(10 * config.workers),
		Start: func(ctx context.Context, setup Setup) (System, error) { return startRiver(ctx, setup, config) },
	}
}

// riverEvents is more than the messages that are in the system at once: River drops events that find no room.
const riverEvents = 200_000

type riverArgs struct {
	Body string `json:"body"`
}

func (riverArgs) Kind() string { return "bench" }

// riverBody is what comes before the payload in a job's arguments.
const riverBody = `{"body":"`

func riverPayload(args []byte) []byte {
	_, rest, _ := bytes.Cut(bytes.ReplaceAll(args, []byte(`": "`), []byte(`":"`)), []byte(riverBody))
	return bytes.TrimSuffix(rest, []byte(`"}`))
}

type riverWorker struct {
	river.WorkerDefaults[riverArgs]

	events load.Events
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.events.Delivered([]byte(job.Args.Body))
	return nil
}

type riverQueue struct {
	pool     *pgxpool.Pool
	inserter *river.Client[pgx.Tx]
	config   riverConfig
}

func startRiver(ctx context.Context, setup Setup, config riverConfig) (System, error) {
	settings, err := pgxpool.ParseConfig(setup.Database)
	if err != nil {
		return nil, err
	}
	settings.MaxConns = int32(min(setup.Clients, 64) + 8) //nolint:gosec // at most 72
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("migrate: %w", err)
	}
	inserter, err := river.NewClient(driver, &river.Config{Logger: quiet()})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &riverQueue{pool: pool, inserter: inserter, config: config}, nil
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func (q *riverQueue) Processes() []int { return nil }

func (q *riverQueue) Close() error {
	q.pool.Close()
	return nil
}

// Work counts a job as acknowledged when River has stored that it is completed.
func (q *riverQueue) Work(ctx context.Context, events load.Events) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{events: events})
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Logger:            quiet(),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: q.config.workers}},
		Workers:           workers,
		FetchCooldown:     q.config.cooldown,
		FetchPollInterval: q.config.poll,
	})
	if err != nil {
		return err
	}
	completed, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: riverEvents, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	defer cancel()
	// It stops by Stop, after it has finished what it began.
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	events.Ready()
	for {
		select {
		case event := <-completed:
			events.Acked(riverPayload(event.Job.EncodedArgs))
		case <-ctx.Done():
			return errors.Join(client.Stop(context.WithoutCancel(ctx)), ctx.Err())
		}
	}
}

func (q *riverQueue) Open(context.Context) (load.Session, error) { return &riverSession{queue: q}, nil }

type riverSession struct{ queue *riverQueue }

func (s *riverSession) Close() error { return nil }

func (s *riverSession) Enqueue(ctx context.Context, payloads [][]byte) error {
	if len(payloads) == 1 {
		_, err := s.queue.inserter.Insert(ctx, riverArgs{Body: string(payloads[0])}, nil)
		return err
	}
	jobs := make([]river.InsertManyParams, len(payloads))
	for i, payload := range payloads {
		jobs[i].Args = riverArgs{Body: string(payload)}
	}
	if s.queue.config.copying {
		_, err := s.queue.inserter.InsertManyFast(ctx, jobs)
		return err
	}
	_, err := s.queue.inserter.InsertMany(ctx, jobs)
	return err
}
