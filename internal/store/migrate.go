package store

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationTimeout bounds one migration statement, and the wait for another migrator to finish.
const migrationTimeout = 5 * time.Minute

// ErrSchema is matched by every *SchemaError.
var ErrSchema = errors.New("database schema does not fit this version of deadletter")

// SchemaError says that a database has another schema version than this binary.
type SchemaError struct {
	// Have is the database's version, 0 when it was never migrated; Want is this binary's.
	Have, Want int
}

func (e *SchemaError) Error() string {
	switch {
	case e.Have == 0:
		return fmt.Sprintf("the database has no deadletter schema, version %d is needed: run 'deadletter migrate'", e.Want)
	case e.Have < e.Want:
		return fmt.Sprintf("the database schema has version %d, version %d is needed: run 'deadletter migrate'",
			e.Have, e.Want)
	default:
		return fmt.Sprintf("the database schema has version %d, newer than version %d of this binary: "+
			"run a newer deadletter; schemas are never migrated down", e.Have, e.Want)
	}
}

// Is matches ErrSchema.
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

type migration struct {
	version  int
	name     string
	sql      string
	checksum string
}

// LatestSchemaVersion is the schema version of this binary.
func LatestSchemaVersion() int {
	all := migrations()
	return all[len(all)-1].version
}

// migrations returns the embedded migrations in order. Their names and order are checked by a test.
func migrations() []migration {
	entries, _ := fs.ReadDir(migrationFiles, "migrations")
	all := make([]migration, 0, len(entries))
	for _, entry := range entries {
		text, _ := migrationFiles.ReadFile(path.Join("migrations", entry.Name()))
		number, name, _ := strings.Cut(strings.TrimSuffix(entry.Name(), ".sql"), "_")
		version, _ := strconv.Atoi(number)
		sum := sha256.Sum256(text)
		all = append(all, migration{version, name, string(text), hex.EncodeToString(sum[:])})
	}
	return all
}

// MigrateOptions says what to migrate.
type MigrateOptions struct {
	DatabaseURL string
	Schema      string
	// Pooler and DialFunc are as in Options.
	Pooler   Pooler
	DialFunc pgconn.DialFunc
	// Progress, when set, is called before each migration that is applied.
	Progress func(version int, name string)
}

// MigrateResult is the schema version before and after.
type MigrateResult struct{ From, To int }

// Migrate brings the schema to this binary's version: forward only, one transaction per migration, under an advisory
// lock so that several migrators take turns. It then validates the result. A newer schema, or one whose applied
// migrations differ from the embedded ones, is refused untouched.
func Migrate(ctx context.Context, options MigrateOptions) (MigrateResult, error) {
	if err := ValidateSchemaName(options.Schema); err != nil {
		return MigrateResult{}, err
	}
	m, err := newMigrator(ctx, options, sessions{application: "deadletter migrate", timeout: migrationTimeout})
	if err != nil {
		return MigrateResult{}, fmt.Errorf("connect to migrate: %w", err)
	}
	defer m.close(ctx)
	return m.run(ctx, options.Progress)
}

type migrator struct {
	conn           *pgx.Conn
	begin          pgx.TxOptions
	schema, quoted string
}

func newMigrator(ctx context.Context, options MigrateOptions, sessions sessions) (m migrator, err error) {
	m.schema, m.quoted = options.Schema, pgx.Identifier{options.Schema}.Sanitize()
	sessions.pooler, sessions.dial = options.Pooler, options.DialFunc
	m.conn, m.begin, err = sessions.connect(ctx, options.DatabaseURL)
	return m, err
}

func (m migrator) close(ctx context.Context) { _ = m.conn.Close(context.WithoutCancel(ctx)) }

func (m migrator) run(ctx context.Context, progress func(int, string)) (MigrateResult, error) {
	found, err := m.step(ctx, progress)
	result := MigrateResult{From: found, To: found}
	for err == nil && found < LatestSchemaVersion() {
		result.To = found + 1
		found, err = m.step(ctx, progress)
	}
	return result, err
}

// step applies the next migration, or validates the schema when there is none, and returns the version that it found.
// Between two steps another migrator may have its turn.
func (m migrator) step(ctx context.Context, progress func(int, string)) (found int, err error) {
	err = m.alone(ctx, func(tx pgx.Tx) error {
		applied, err := m.applied(ctx, tx)
		if err != nil {
			return err
		}
		found = len(applied)
		if err := checkApplied(applied); err != nil {
			return err
		}
		if found == LatestSchemaVersion() {
			return m.validate(ctx, tx)
		}
		next := migrations()[found]
		if progress != nil {
			progress(next.version, next.name)
		}
		return m.apply(ctx, tx, next)
	})
	return found, err
}

// alone runs f in a transaction, in which migrators of one schema take turns: a session's lock would stay in a session
// that a pooler gives to somebody else.
func (m migrator) alone(ctx context.Context, f func(tx pgx.Tx) error) error {
	//nolint:wrapcheck // f's errors are wrapped, and what begins and commits speaks for itself
	return pgx.BeginTxFunc(ctx, m.conn, m.begin, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", advisoryKey("migrate", m.schema)); err != nil {
			return fmt.Errorf("wait for other migrators: %w", err)
		}
		return f(tx)
	})
}

// applied returns the checksums of the migrations in the database, in order.
func (m migrator) applied(ctx context.Context, tx pgx.Tx) ([]string, error) {
	var exists bool
	err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", m.quoted+".schema_migration").Scan(&exists)
	if err != nil {
		return nil, fmt.Errorf("look for the schema: %w", err)
	}
	if !exists {
		return nil, nil
	}
	list := strings.ReplaceAll("SELECT checksum FROM {schema}.schema_migration ORDER BY version", "{schema}", m.quoted)
	sums, err := collect(ctx, tx, pgx.RowTo[string], list)
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	return sums, nil
}

// checkApplied refuses a newer schema and one whose migrations are not the embedded ones.
func checkApplied(applied []string) error {
	known := migrations()
	if len(applied) > len(known) {
		return &SchemaError{Have: len(applied), Want: len(known)}
	}
	for i, sum := range applied {
		if sum != known[i].checksum {
			return fmt.Errorf("%w: migration %d was applied with other contents", ErrSchema, known[i].version)
		}
	}
	return nil
}

const migrationTable = `
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.schema_migration (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);`

func (m migrator) apply(ctx context.Context, tx pgx.Tx, next migration) error {
	record := "INSERT INTO {schema}.schema_migration (version, name, checksum) VALUES ($1, $2, $3)"
	for _, statement := range []struct {
		text string
		args []any
	}{{text: migrationTable}, {text: next.sql}, {record, []any{next.version, next.name, next.checksum}}} {
		if _, err := tx.Exec(ctx, strings.ReplaceAll(statement.text, "{schema}", m.quoted), statement.args...); err != nil {
			return fmt.Errorf("apply migration %d (%s): %w", next.version, next.name, err)
		}
	}
	return nil
}

// schemaTables are what a migrated schema must hold.
var schemaTables = tablesOf(
	"attempt", "breaker_sample", "depth", "depth_delta", "enqueue_key",
	"message", "message_revision", "queue", "replay", "replay_item", "replay_outcome", "replay_run", "schema_migration",
	"segment",
)

// tablesOf adds the tables of the log.
func tablesOf(tables ...string) []string {
	for slot := range slots {
		for _, table := range []string{"log", "claim", "closed", "delta"} {
			tables = append(tables, table+"_"+strconv.Itoa(slot))
		}
	}
	return tables
}

// validate proves that a schema with all migrations is whole: all tables are there.
func (m migrator) validate(ctx context.Context, tx pgx.Tx) error {
	missing, err := collect(ctx, tx, pgx.RowTo[string],
		"SELECT t FROM unnest($1::text[]) t WHERE to_regclass($2 || '.' || quote_ident(t)) IS NULL", schemaTables, m.quoted)
	if err != nil {
		return fmt.Errorf("validate schema: %w", err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: tables are missing: %s", ErrSchema, strings.Join(missing, ", "))
	}
	return nil
}

// advisoryKey is the key of an advisory lock of one schema.
func advisoryKey(purpose, schema string) int64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte("deadletter:" + purpose + ":" + schema))
	return int64(hash.Sum64()) //nolint:gosec // every bit pattern is a key
}

// SchemaVersion returns the version of the database's schema, 0 when it was never migrated.
func (s *Store) SchemaVersion(ctx context.Context) (int, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var version int
	err := s.pool.QueryRow(ctx, s.sql("SELECT coalesce(max(version), 0) FROM {schema}.schema_migration")).Scan(&version)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.Code == "42P01" || pgErr.Code == "3F000") {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

// ErrReadOnly is returned by CheckSchema for a database that takes no changes, such as a standby after a failover.
var ErrReadOnly = errors.New("the database takes no changes: it is a standby, or its sessions are read-only")

// CheckSchema returns a *SchemaError unless the database's schema is exactly this binary's, and ErrReadOnly when it is
// but cannot be changed.
func (s *Store) CheckSchema(ctx context.Context) error {
	have, err := s.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if want := LatestSchemaVersion(); have != want {
		return &SchemaError{Have: have, Want: want}
	}
	return s.checkWritable(ctx)
}

func (s *Store) checkWritable(ctx context.Context) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var readOnly bool
	// It is on throughout recovery, too.
	err := s.pool.QueryRow(ctx, "SELECT current_setting('transaction_read_only')::boolean").Scan(&readOnly)
	if err != nil {
		return fmt.Errorf("ask whether the database takes changes: %w", err)
	}
	if readOnly {
		s.pool.Reset() // Sessions keep the setting they began with, and the address they were made to.
		return ErrReadOnly
	}
	return nil
}
