package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

func migrated(t *testing.T) store.MigrateOptions {
	t.Helper()
	options := store.MigrateOptions{DatabaseURL: pgtest.Database(t), Schema: schema}
	if _, err := store.Migrate(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	return options
}

// administer runs a statement as the database's administrator would.
func administer(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func schemaExists(t *testing.T, url string) (exists bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	query := "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)"
	if err := conn.QueryRow(t.Context(), query, schema).Scan(&exists); err != nil {
		t.Fatal(err)
	}
	return exists
}

func TestDropSchemaTwiceIsOnce(t *testing.T) {
	t.Parallel()
	options := migrated(t)
	other := options
	other.Schema = "other"
	if _, err := store.Migrate(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if dropped, err := store.DropSchema(t.Context(), options); err != nil || !dropped {
		t.Fatalf("first: %t, %v", dropped, err)
	}
	if schemaExists(t, options.DatabaseURL) {
		t.Error("the schema is still there")
	}
	if dropped, err := store.DropSchema(t.Context(), options); err != nil || dropped {
		t.Fatalf("second: %t, %v", dropped, err)
	}
	if result, err := store.Migrate(t.Context(), other); err != nil || result.From != result.To {
		t.Errorf("the other schema: %+v, %v", result, err)
	}
}

func TestDropSchemaRefusesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		statement string
		want      error
	}{
		"a table of somebody else": {"CREATE TABLE deadletter.invoices (id int)", store.ErrForeignSchema},
		"a view of somebody else":  {"CREATE VIEW deadletter.report AS SELECT 1", store.ErrForeignSchema},
		"a newer version": {
			"INSERT INTO deadletter.schema_migration (version, name, checksum) VALUES (9999, 'later', 'x')", store.ErrSchema,
		},
		"another history": {"UPDATE deadletter.schema_migration SET checksum = 'x'", store.ErrSchema},
		"no history":      {"DELETE FROM deadletter.schema_migration", store.ErrForeignSchema},
		"another product": {
			"DROP SCHEMA deadletter CASCADE; CREATE SCHEMA deadletter; CREATE TABLE deadletter.schema_migration (version text)",
			store.ErrForeignSchema,
		},
		"an empty schema": {"DROP SCHEMA deadletter CASCADE; CREATE SCHEMA deadletter", store.ErrForeignSchema},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := migrated(t)
			administer(t, options.DatabaseURL, test.statement)
			if dropped, err := store.DropSchema(t.Context(), options); dropped || !errors.Is(err, test.want) {
				t.Errorf("dropped %t, error %v, want %v", dropped, err, test.want)
			}
			if !schemaExists(t, options.DatabaseURL) {
				t.Error("the schema is gone")
			}
		})
	}
}
