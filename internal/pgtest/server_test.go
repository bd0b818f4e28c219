package pgtest

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
)

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()

	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })

	return conn
}

func query[T any](t *testing.T, conn *pgx.Conn, statement string) T {
	t.Helper()

	var value T
	if err := conn.QueryRow(t.Context(), statement).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}

	return value
}

func mustExec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()

	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func start(t *testing.T, options Options) *Server {
	t.Helper()

	server, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})

	return server
}

func TestKill9KeepsCommittedRows(t *testing.T) {
	t.Parallel()

	server := start(t, Options{Durable: true})
	address := server.URL("postgres")

	conn := connect(t, address)
	mustExec(t, conn, "CREATE TABLE kept (id int PRIMARY KEY)")

	const rows = 500
	for id := range rows {
		mustExec(t, conn, "INSERT INTO kept VALUES ("+strconv.Itoa(id)+")")
	}

	open := connect(t, address)
	mustExec(t, open, "BEGIN")
	mustExec(t, open, "INSERT INTO kept VALUES (-1)")

	offspring, err := children(server.process.pid)
	if err != nil {
		t.Fatal(err)
	}

	if len(offspring) < 2 {
		t.Fatalf("found children %v, want at least the two sessions", offspring)
	}

	if err := server.Kill9(); err != nil {
		t.Fatal(err)
	}

	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a session survived Kill9")
	}

	if !portFree(server.details.Port) {
		t.Error("the port is still served after Kill9")
	}

	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	if server.URL("postgres") != address {
		t.Error("the address changed with the restart")
	}

	if got := query[int](t, connect(t, address), "SELECT count(*) FROM kept"); got != rows {
		t.Errorf("found %d rows after the crash, want %d", got, rows)
	}
}

func TestDurability(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		durable bool
		want    string
	}{
		"fast by default": {false, "off"},
		"durable":         {true, "on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			conn := connect(t, start(t, Options{Durable: test.durable}).URL("postgres"))
			for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
				if got := query[string](t, conn, "SHOW "+setting); got != test.want {
					t.Errorf("%s = %s, want %s", setting, got, test.want)
				}
			}
		})
	}
}

func TestRestartOfARunningServer(t *testing.T) {
	t.Parallel()

	server := start(t, Options{Settings: map[string]string{"work_mem": "7MB"}})
	mustExec(t, connect(t, server.URL("postgres")), "CREATE TABLE kept ()")

	before := server.process.pid
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	if server.process.pid == before {
		t.Error("Restart left the old process running")
	}

	conn := connect(t, server.URL("postgres"))
	if !query[bool](t, conn, "SELECT to_regclass('kept') IS NOT NULL") {
		t.Error("a committed table is gone")
	}

	if got := query[string](t, conn, "SHOW work_mem"); got != "7MB" {
		t.Errorf("work_mem = %s after the restart, want the requested 7MB", got)
	}
}

func TestStopRemovesATemporaryServer(t *testing.T) {
	t.Parallel()

	server := start(t, Options{})
	pid := server.process.pid

	for range 2 {
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := os.Stat(server.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}

	if line := commandLine(pid); line != "" {
		t.Errorf("process %d still runs: %s", pid, line)
	}
}

func TestPasswordIsRequired(t *testing.T) {
	t.Parallel()

	server := start(t, Options{})
	port := strconv.Itoa(server.details.Port)

	for name, address := range map[string]string{
		"loopback": "postgres://postgres:wrong@" + net.JoinHostPort("127.0.0.1", port) + "/postgres?sslmode=disable",
		"socket":   "host=" + server.Dir() + " port=" + port + " user=postgres password=wrong dbname=postgres",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if conn, err := pgx.Connect(t.Context(), address); err == nil {
				_ = conn.Close(t.Context())

				t.Error("connected with a wrong password")
			}
		})
	}
}

func TestDetachedServerIsFoundAgain(t *testing.T) {
	t.Parallel()

	dir := folder(t)

	server, err := Start(t.Context(), Options{Dir: dir, Detach: true})
	if err != nil {
		t.Fatal(err)
	}

	mustExec(t, connect(t, server.URL("postgres")), "CREATE TABLE kept ()")

	if again, err := Start(t.Context(), Options{Dir: dir}); err == nil {
		t.Error("a second server started in the same folder")

		_ = again.Stop()
	}

	attached, err := Attach(dir)
	if err != nil {
		t.Fatal(err)
	}

	if attached.URL("x") != server.URL("x") {
		t.Error("the attached server has another address")
	}

	if err := attached.Stop(); err != nil {
		t.Fatal(err)
	}

	if _, err := Attach(dir); err == nil {
		t.Error("attached to a stopped server")
	}

	revived := start(t, Options{Dir: dir})
	if !query[bool](t, connect(t, revived.URL("postgres")), "SELECT to_regclass('kept') IS NOT NULL") {
		t.Error("the folder's data is gone")
	}
}

// folder returns a folder that the server's account can reach, which t.TempDir is not when root runs the tests.
func folder(t *testing.T) string {
	t.Helper()

	dir, err := os.MkdirTemp("", "pgtest-dir-") //nolint:usetesting // t.TempDir is closed to the server's account.
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})

	return dir
}
