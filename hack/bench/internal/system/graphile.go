package system

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/server"
)

var (
	//go:embed graphile/package.json
	graphilePackage []byte
	//go:embed graphile/worker.js
	graphileWorker []byte
)

// graphileProcesses is one for each core that the machine at hand has.
const graphileProcesses = 2

// Graphile is graphile-worker, fetched from npm into the folder at first use.
func Graphile(cache string) Kind {
	return Kind{
		Name: "graphile-worker",
		About: "graphile-worker 0.16 (the last for Node 20) as two Node processes of concurrency 8; add_job, or add_jobs, " +
			"by SQL on a connection per client",
		Postgres: true,
		Window:   5_000,
		Missing: func(ctx context.Context) string {
			if err := fetchGraphile(ctx, cache); err != nil {
				return err.Error()
			}
			return ""
		},
		Start: func(ctx context.Context, setup Setup) (System, error) {
			return startGraphile(ctx, filepath.Join(cache, "graphile"), setup)
		},
	}
}

func fetchGraphile(ctx context.Context, cache string) error {
	if _, err := exec.LookPath("node"); err != nil {
		return errors.New("there is no Node.js")
	}
	dir := filepath.Join(cache, "graphile")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"package.json": graphilePackage, "worker.js": graphileWorker} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "graphile-worker")); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--silent")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w: %.200s", err, out)
	}
	return nil
}

// graphile runs its workers from start to end, as processes of their own.
type graphile struct {
	dir, database string
	workers       []*server.Process
	events        atomic.Pointer[load.Events]
	ended         chan error
}

// graphileStart is how long its workers may take to be ready.
const graphileStart = 30 * time.Second

func startGraphile(ctx context.Context, dir string, setup Setup) (System, error) {
	migrate := exec.CommandContext(ctx, filepath.Join(dir, "node_modules", ".bin", "graphile-worker"), "--schema-only",
		"--connection", setup.Database)
	migrate.Dir = dir
	if out, err := migrate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("migrate: %w: %s", err, out)
	}
	g := &graphile{dir: dir, database: setup.Database, ended: make(chan error, graphileProcesses)}
	ready := make(chan struct{}, graphileProcesses)
	for range graphileProcesses {
		if err := g.startWorker(ready); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	for range graphileProcesses {
		select {
		case <-ready:
		case err := <-g.ended:
			return nil, errors.Join(err, g.Close())
		case <-time.After(graphileStart):
			return nil, errors.Join(errors.New("the workers are not ready"), g.Close())
		}
	}
	return g, nil
}

func (g *graphile) startWorker(ready chan<- struct{}) error {
	cmd := exec.Command("node", filepath.Join(g.dir, "worker.js"))
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "DATABASE_URL="+g.database)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	process, err := server.Start("graphile-worker", cmd)
	if err != nil {
		return err
	}
	g.workers = append(g.workers, process)
	go func() {
		g.listen(output, ready)
		g.ended <- process.Failure()
	}()
	return nil
}

// listen hands on what a worker tells, until it ends.
func (g *graphile) listen(output io.Reader, ready chan<- struct{}) {
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		line := scanner.Bytes()
		if string(line) == "r" {
			ready <- struct{}{}
			continue
		}
		events := g.events.Load()
		if events == nil || len(line) == 0 {
			continue
		}
		switch line[0] {
		case 'd':
			(*events).Delivered(line[1:])
		case 'a':
			(*events).Acked(line[1:])
		}
	}
}

// Processes are the workers, which do a server's share of the work.
func (g *graphile) Processes() []int {
	pids := make([]int, len(g.workers))
	for i, worker := range g.workers {
		pids[i] = worker.PID()
	}
	return pids
}

func (g *graphile) Close() error {
	var err error
	for _, worker := range g.workers {
		err = errors.Join(err, worker.Stop())
	}
	return err
}

// Work listens to the workers.
func (g *graphile) Work(ctx context.Context, events load.Events) error {
	g.events.Store(&events)
	defer g.events.Store(nil)
	events.Ready()
	select {
	case err := <-g.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *graphile) Open(ctx context.Context) (load.Session, error) {
	conn, err := pgx.Connect(ctx, g.database)
	if err != nil {
		return nil, err
	}
	return &graphileSession{conn: conn}, nil
}

type graphileSession struct{ conn *pgx.Conn }

func (s *graphileSession) Close() error { return s.conn.Close(context.Background()) }

const (
	graphileAddOne  = `SELECT count(*) FROM graphile_worker.add_job('bench', json_build_object('body', $1::text))`
	graphileAddMany = `
SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
    SELECT json_populate_record(NULL::graphile_worker.job_spec,
        json_build_object('identifier', 'bench', 'payload', json_build_object('body', body)))
    FROM unnest($1::text[]) AS body))`
)

func (s *graphileSession) Enqueue(ctx context.Context, payloads [][]byte) error {
	if len(payloads) == 1 {
		_, err := s.conn.Exec(ctx, graphileAddOne, string(payloads[0]))
		return err
	}
	texts := make([]string, len(payloads))
	for i, payload := range payloads {
		texts[i] = string(payload)
	}
	_, err := s.conn.Exec(ctx, graphileAddMany, texts)
	return err
}
