package pgtest

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { Main(m) }

func TestDatabasesAreSeparate(t *testing.T) {
	t.Parallel()

	const databases = 8

	var names sync.Map

	t.Run("group", func(t *testing.T) {
		t.Parallel()

		for range databases {
			t.Run("Each one, in parallel", func(t *testing.T) {
				t.Parallel()

				conn := connect(t, Database(t))
				mustExec(t, conn, "CREATE TABLE mine ()")

				name := query[string](t, conn, "SELECT current_database()")
				if _, seen := names.LoadOrStore(name, true); seen {
					t.Errorf("database %s was handed out twice", name)
				}
			})
		}
	})
}

//nolint:tparallel // The inner test must end before the outer one looks.
func TestDatabaseIsDroppedWithOpenSessions(t *testing.T) {
	t.Parallel()

	var name string

	t.Run("user", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), Database(t))
		if err != nil {
			t.Fatal(err)
		}

		name = query[string](t, conn, "SELECT current_database()")
	})

	conn := connect(t, Database(t))
	if query[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = '"+name+"')") {
		t.Errorf("database %s outlives its test", name)
	}
}

func TestDatabaseName(t *testing.T) {
	t.Parallel()

	long := databaseName("TestOf/a very long name, which alone would fill more than the limit of an identifier")
	if len(long) != nameLimit {
		t.Errorf("%q has %d characters, want %d", long, len(long), nameLimit)
	}

	if a, b := databaseName("TestA/b"), databaseName("TestA/b"); a == b || a[:8] != "testa_b_" {
		t.Errorf("names %q and %q are not readable and unique", a, b)
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct{ address, want string }{
		"replaces":      {"postgres://u:p@h:1/old?sslmode=disable", "postgres://u:p@h:1/new?sslmode=disable"},
		"adds":          {"postgres://u:p@h:1", "postgres://u:p@h:1/new"},
		"socket":        {"postgres:///old?host=/run/postgresql", "postgres:///new?host=/run/postgresql"},
		"key and value": {"host=h user=u", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := withDatabase(test.address, "new")
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
