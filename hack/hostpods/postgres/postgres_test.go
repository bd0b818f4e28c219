package main

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/pgtest"
)

// asProgram makes the test's own executable the program.
const asProgram = "HOSTPODS_TEST_POSTGRES"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}

	os.Exit(m.Run())
}

func lookup(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func with(changes map[string]string) map[string]string {
	variables := map[string]string{
		"POSTGRES_PASSWORD": "secret", "HOSTPODS_ADDRESS": "127.77.9.9",
		"HOSTPODS_VOLUMES": `{"/var/lib/postgresql/data":"/host/data","/run/secrets":"/host/secrets"}`,
	}
	maps.Copy(variables, changes)

	return variables
}

func TestContract(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		variables map[string]string
		want      contract
	}{
		"defaults": {nil, contract{user: "postgres", password: "secret", database: "postgres", data: "/host/data"}},
		"a user is the database too": {
			map[string]string{"POSTGRES_USER": "shop"},
			contract{user: "shop", password: "secret", database: "shop", data: "/host/data"},
		},
		"everything": {
			map[string]string{
				"POSTGRES_USER": "shop", "POSTGRES_DB": "orders", "PGDATA": "/var/lib/postgresql/data/pgdata",
				"POSTGRES_PASSWORD": "", "POSTGRES_PASSWORD_FILE": file, "POSTGRES_INITDB_ARGS": "--data-checksums",
			},
			contract{
				user: "shop", password: "from a file", database: "orders", data: "/host/data/pgdata",
				initdbArgs: []string{"--data-checksums"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := readContract(lookup(with(test.variables)))
			if err != nil {
				t.Fatal(err)
			}

			test.want.address = "127.77.9.9"
			if len(test.want.initdbArgs) == 0 {
				got.initdbArgs = nil
			}

			if diff := cmp.Diff(&test.want, got, cmp.AllowUnexported(contract{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestContractRefuses(t *testing.T) {
	t.Parallel()

	for want, variables := range map[string]map[string]string{
		"must not be empty": {"POSTGRES_PASSWORD": ""},
		"exclusive":         {"POSTGRES_PASSWORD_FILE": "/x"},
		"not on a volume":   {"PGDATA": "/var/lib/other"},
		"scripts":           {"HOSTPODS_VOLUMES": `{"/docker-entrypoint-initdb.d":"/host/scripts"}`},
		"HOSTPODS_ADDRESS":  {"HOSTPODS_ADDRESS": ""},
	} {
		if _, err := readContract(lookup(with(variables))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestServerGetsThePodsArguments(t *testing.T) {
	t.Parallel()

	c := &contract{address: "127.77.9.9"}
	kept := []string{"-c", "listen_addresses=127.77.9.9", "-c", "unix_socket_directories="}

	for _, test := range []struct{ args, want []string }{
		{nil, kept},
		{[]string{"postgres"}, kept},
		{[]string{"postgres", "-c", "fsync=off"}, append([]string{"-c", "fsync=off"}, kept...)},
		{[]string{"-c", "fsync=off"}, append([]string{"-c", "fsync=off"}, kept...)},
	} {
		if diff := cmp.Diff(test.want, c.arguments(test.args)); diff != "" {
			t.Error(diff)
		}
	}
}

// pod starts the program as hostpods does, and waits until its database answers.
func pod(t *testing.T, volume string) (*exec.Cmd, *pgx.Conn) {
	t.Helper()

	programs, err := pgtest.Programs()
	if err != nil {
		t.Fatal(err)
	}

	volumes, err := json.Marshal(map[string]string{"/var/lib/postgresql/data": volume})
	if err != nil {
		t.Fatal(err)
	}

	const address = "127.77.201.9"

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(self, "-c", "port=54329")
	cmd.Env = []string{
		asProgram + "=1", "PATH=" + programs + ":/usr/bin:/bin", "PGDATA=/var/lib/postgresql/data/pgdata",
		"POSTGRES_USER=shop", "POSTGRES_PASSWORD=se'cr\"et", `POSTGRES_DB=or"ders`,
		"HOSTPODS_ADDRESS=" + address, "HOSTPODS_VOLUMES=" + string(volumes),
	}
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = cmd.Process.Kill() })

	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}

	config.Host, config.Port, config.User, config.Password = address, 54329, "shop", `se'cr"et`
	config.Database = `or"ders`
	config.DialFunc = (&net.Dialer{}).DialContext

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	for {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			return cmd, conn
		}

		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// terminate ends the program as hostpods does, while a session is open.
func terminate(t *testing.T, cmd *exec.Cmd) {
	t.Helper()

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	if err := cmd.Wait(); err != nil {
		t.Errorf("the server did not end in order: %v", err)
	}
}

func TestDatabaseSurvivesItsPod(t *testing.T) {
	t.Parallel()

	// The server's user has to be able to enter the folder, which a test's own is closed to.
	volume, err := os.MkdirTemp("", "hostpods-test-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := os.RemoveAll(volume); err != nil {
			t.Error(err)
		}
	})

	if err := os.Chmod(volume, 0o711); err != nil {
		t.Fatal(err)
	}

	first, conn := pod(t, volume)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS answer"); err != nil {
		t.Fatal(err)
	}

	terminate(t, first)

	second, conn := pod(t, volume)

	var answer int
	if err := conn.QueryRow(t.Context(), "SELECT answer FROM kept").Scan(&answer); err != nil || answer != 42 {
		t.Errorf("the second pod finds %d (%v)", answer, err)
	}

	refused := conn.Config().Copy()
	refused.Password = "wrong"

	if other, err := pgx.ConnectConfig(t.Context(), refused); err == nil {
		t.Error("a wrong password was accepted")

		_ = other.Close(t.Context())
	}

	terminate(t, second)
}
