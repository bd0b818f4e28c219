package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// dropTimeout bounds each statement of a drop, most of all the wait for the locks of sessions that still work.
const dropTimeout = 30 * time.Second

// ErrForeignSchema means that a schema holds something that this product did not put there, so that it is not dropped.
var ErrForeignSchema = errors.New("the schema holds more than this version of deadletter put there")

// DropSchema removes the schema with all messages. It refuses a schema that is not, or not wholly, this product's, or
// that a newer version has migrated. It reports false when there was no such schema.
func DropSchema(ctx context.Context, options MigrateOptions) (dropped bool, err error) {
	if err := ValidateSchemaName(options.Schema); err != nil {
		return false, err
	}
	m, err := newMigrator(ctx, options, sessions{application: "deadletter drop", timeout: dropTimeout})
	if err != nil {
		return false, fmt.Errorf("connect to drop the schema: %w", err)
	}
	defer m.close(ctx)
	err = m.alone(ctx, func(tx pgx.Tx) (err error) {
		dropped, err = m.drop(ctx, tx)
		return err
	})
	return dropped && err == nil, err
}

func (m migrator) drop(ctx context.Context, tx pgx.Tx) (bool, error) {
	var exists bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", m.schema).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("look for the schema: %w", err)
	}
	if !exists {
		return false, nil
	}
	if err := m.checkOwn(ctx, tx); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, "DROP SCHEMA IF EXISTS "+m.quoted+" CASCADE"); err != nil {
		return false, fmt.Errorf("drop the schema: %w", err)
	}
	return true, nil
}

// checkOwn refuses a schema that was not made by Migrate, or in which somebody else keeps tables or views.
func (m migrator) checkOwn(ctx context.Context, tx pgx.Tx) error {
	applied, err := m.applied(ctx, tx)
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == "42703" {
		return fmt.Errorf("%w: its schema_migration is another product's", ErrForeignSchema)
	}
	if err != nil {
		return err
	}
	if len(applied) == 0 {
		return fmt.Errorf("%w: it was never migrated", ErrForeignSchema)
	}
	if err := checkApplied(applied); err != nil {
		return err
	}
	foreign, err := collect(ctx, tx, pgx.RowTo[string], `
		SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname <> ALL ($2::text[])
		ORDER BY 1 LIMIT 5`, m.schema, schemaTables)
	if err != nil {
		return fmt.Errorf("list the schema: %w", err)
	}
	if len(foreign) > 0 {
		return fmt.Errorf("%w: %s", ErrForeignSchema, strings.Join(foreign, ", "))
	}
	return nil
}
