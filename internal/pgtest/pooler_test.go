package pgtest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// connectSimply connects without named statements, which a pooler would mix up.
func connectSimply(t *testing.T, address string) *pgx.Conn {
	t.Helper()

	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}

	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol

	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })

	return conn
}

func TestPoolerSharesSessions(t *testing.T) {
	t.Parallel()

	address := Pooler(t, Database(t), PoolerOptions{Sessions: 1})
	one, other := connectSimply(t, address), connectSimply(t, address)

	mustExec(t, one, "SET work_mem = '1234kB'")

	if got := query[string](t, other, "SHOW work_mem"); got != "1234kB" {
		t.Errorf("another client has %s, want what the first one left in the only session", got)
	}
}

func TestPoolerTakesSettings(t *testing.T) {
	t.Parallel()

	database := Database(t)
	refused := Pooler(t, database, PoolerOptions{}) + "&lock_timeout=7"
	ignored := Pooler(t, database, PoolerOptions{
		Settings: map[string]string{"ignore_startup_parameters": "lock_timeout"},
	}) + "&lock_timeout=7"

	if _, err := pgx.Connect(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "lock_timeout") {
		t.Errorf("a parameter that is not known: %v", err)
	}

	if got := query[string](t, connectSimply(t, ignored), "SHOW lock_timeout"); got != "0" {
		t.Errorf("a parameter that is ignored: %s", got)
	}
}

func TestPoolerEndsWithItsTest(t *testing.T) {
	t.Parallel()

	started, err := startPooler(t.Context(), Database(t), PoolerOptions{})
	if err != nil {
		t.Fatal(err)
	}

	if err := started.stop(); err != nil {
		t.Error(err)
	}

	if _, err := os.Stat(started.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}

	if _, err := pgx.Connect(t.Context(), started.url); err == nil {
		t.Error("it still answers")
	}
}

// A process that ends without stopping its PgBouncer breaks the watchdog's pipe.
func TestPoolerIsWatched(t *testing.T) {
	t.Parallel()

	started, err := startPooler(t.Context(), Database(t), PoolerOptions{})
	if err != nil {
		t.Fatal(err)
	}

	if err := started.watchdog.release(); err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()

	if err := wait(ctx, started.hasExited); err != nil {
		t.Errorf("process %d still runs", started.cmd.Process.Pid)
	}

	if _, err := os.Stat(started.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
}

func TestMissingPoolerSaysWhatToInstall(t *testing.T) {
	t.Parallel()

	message := ErrNoPooler.Error()
	for _, part := range []string{"make deps", "package pgbouncer"} {
		if !strings.Contains(message, part) || strings.Contains(message, "\n") {
			t.Errorf("not one line that names %q: %s", part, message)
		}
	}
}
