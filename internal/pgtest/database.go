package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// DatabaseURLVariable names the environment variable that makes [Database] use an existing server. Its user must be
// allowed to create databases.
const DatabaseURLVariable = "DEADLETTER_TEST_DATABASE_URL"

const (
	adminTimeout = 60 * time.Second
	nameLimit    = 63
)

// shared is the one server of the test process. It ends with the process, through its watchdog at the latest.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

func sharedServer() (*Server, error) {
	shared.once.Do(func() {
		shared.server, shared.err = Start(context.Background(), Options{})
	})

	return shared.server, shared.err
}

// Main runs a package's tests and stops the shared server before the process ends. It is optional: without it the
// server is stopped just after the process has ended.
func Main(m *testing.M) {
	code := m.Run()

	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop Postgres:", err)

			code = max(code, 1)
		}
	}

	os.Exit(code)
}

// Database creates an empty database and returns its URL. The database is dropped when the test ends; a test that
// failed gets the server's log lines about it.
func Database(t testing.TB) string {
	t.Helper()

	admin := os.Getenv(DatabaseURLVariable)

	if admin == "" {
		server, err := sharedServer()
		if err != nil {
			t.Fatal(err)
		}

		admin = server.URL("postgres")
	}

	name := databaseName(t.Name())

	address, err := withDatabase(admin, name)
	if err != nil {
		t.Fatal(err)
	}

	// No session can be open on template0, so creation never fails because of a concurrent one.
	if err := execute(admin, "CREATE DATABASE "+quote(name)+" TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if t.Failed() && shared.server != nil {
			t.Logf("Postgres log of %s:\n%s", name, shared.server.tail(func(line string) bool {
				return strings.Contains(line, " "+name+" ")
			}))
		}

		if err := execute(admin, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})

	return address
}

// databaseName derives a unique database name in which the test can still be recognised.
func databaseName(test string) string {
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '_'
		}
	}, test)

	unique := "_" + strings.ToLower(rand.Text()[:12])

	return readable[:min(len(readable), nameLimit-len(unique))] + unique
}

// withDatabase replaces the database in a connection URL.
func withDatabase(address, name string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" && parsed.RawQuery == "" {
		// The parse error would repeat the password.
		return "", fmt.Errorf("%s is not a postgres:// URL", DatabaseURLVariable)
	}

	parsed.Path = "/" + name

	return parsed.String(), nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// execute runs one administrative statement on a connection of its own.
func execute(address, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()

	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(ctx)

	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}

	return nil
}
