package store_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

func TestMigrateTwiceIsOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	options := store.MigrateOptions{DatabaseURL: url, Schema: schema}
	first, err := store.Migrate(t.Context(), options)
	if err != nil || first.From != 0 || first.To != store.LatestSchemaVersion() {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := store.Migrate(t.Context(), options)
	if err != nil || second.From != second.To || second.To != first.To {
		t.Fatalf("second: %+v, %v", second, err)
	}
}

func TestMigratorsTakeTurns(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	var group errgroup.Group
	for range 5 {
		group.Go(func() error {
			_, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: url, Schema: schema})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("migrate: %v", err)
	}
}

func TestSchemasAreIndependent(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	for _, name := range []string{"one", "two", "select"} {
		if _, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: url, Schema: name}); err != nil {
			t.Fatalf("migrate %s: %v", name, err)
		}
	}
}

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, pgtest.Database(t), store.Options{})
	wantSchemaError(t, d, 0)
	if _, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: d.url, Schema: schema}); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	if err := d.CheckSchema(t.Context()); err != nil {
		t.Fatalf("check: %v", err)
	}
	newer := store.LatestSchemaVersion() + 1
	d.exec(t, `INSERT INTO deadletter.schema_migration (version, name, checksum) VALUES ($1, 'next', '')`, newer)
	wantSchemaError(t, d, newer)
	options := store.MigrateOptions{DatabaseURL: d.url, Schema: schema}
	if _, err := store.Migrate(t.Context(), options); !errors.Is(err, store.ErrSchema) {
		t.Fatalf("migrating a newer schema: %v", err)
	}
}

func wantSchemaError(t *testing.T, d database, have int) {
	t.Helper()
	var schemaErr *store.SchemaError
	err := d.CheckSchema(t.Context())
	if !errors.As(err, &schemaErr) || schemaErr.Have != have || schemaErr.Want != store.LatestSchemaVersion() {
		t.Fatalf("check: %v, want version %d", err, have)
	}
}

func TestMigrateRefusesWhatItDidNotMake(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"altered migration": `UPDATE deadletter.schema_migration SET checksum = 'x' WHERE version = 1`,
		"missing table":     `DROP TABLE deadletter.attempt`,
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.exec(t, damage)
			_, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: d.url, Schema: schema})
			if !errors.Is(err, store.ErrSchema) {
				t.Fatalf("migrate: %v", err)
			}
		})
	}
}

func TestErrorsNeverShowThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://user:hunter2@127.0.0.1:1/db", "postgres://user:hunter2@ho st:x/db", "host=127.0.0.1 port=x password=hunter2",
	} {
		_, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: url, Schema: schema})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Fatalf("migrate: %v", err)
		}
		opened, err := store.Open(t.Context(), store.Options{DatabaseURL: url, Schema: schema})
		if err == nil {
			err = opened.Ping(t.Context())
			opened.Close()
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Fatalf("open: %v", err)
		}
	}
}

func TestValidateSchemaName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"deadletter", "_a", "a1", strings.Repeat("a", 63)} {
		if err := store.ValidateSchemaName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "A", "1a", "a-b", `a"b`, "pg_toast", "information_schema", strings.Repeat("a", 64)} {
		if err := store.ValidateSchemaName(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}
