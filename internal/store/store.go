package store

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"deadletter.dev/deadletter/internal/coalesce"
	"deadletter.dev/deadletter/internal/message"
)

const (
	defaultStatementTimeout = 10 * time.Second
	defaultMaxConns         = 16
)

// Options says which database to use and how.
type Options struct {
	// DatabaseURL is a Postgres connection URL or DSN.
	DatabaseURL string
	// Pooler is what DatabaseURL leads to; nothing means NoPooler.
	Pooler Pooler
	// Schema holds all tables; see ValidateSchemaName.
	Schema string
	// DenyUndeclaredQueues makes an enqueue to a queue that no Queue resource declares fail with ErrUndeclaredQueue.
	DenyUndeclaredQueues bool
	// RelaxedAcknowledgements lets an acknowledgement be answered before it is on disk: a crash of the database may undo
	// the last moments of them, and those messages are delivered once more.
	RelaxedAcknowledgements bool
	// MaxConns bounds the pool; 0 means 16.
	MaxConns int32
	// StatementTimeout bounds every ordinary statement; 0 means 10 s.
	StatementTimeout time.Duration
	// ApplicationName is shown in pg_stat_activity.
	ApplicationName string
	// DialFunc replaces the way to the server; nil dials the address of DatabaseURL.
	DialFunc pgconn.DialFunc
	// Jitter returns random numbers in [0, 1) for backoff; nil uses math/rand.
	Jitter func() float64
}

// Store is the Postgres store of one schema. It is safe for concurrent use.
type Store struct {
	pool connections
	// pooler is what pool connects to.
	pooler Pooler
	// connConfig is how the pool connects.
	connConfig *pgx.ConnConfig
	// sender tells this store's notifications from those of others.
	sender         string
	schema         string
	quotedSchema   string
	denyUndeclared bool
	relaxedAcks    bool
	timeout        time.Duration
	jitter         func() float64
	// statements are the statements with the schema put in, by their text or slotStatement.
	statements sync.Map
	log        segmentCache
	// What callers ask at one time goes to the database together.
	enqueues *coalesce.Group[string, messageColumnsOf, []message.Message]
	claims   *coalesce.Group[string, ClaimParams, []message.Message]
	succeeds *coalesce.Group[string, []LeaseRef, []Settled]
	fails    *coalesce.Group[string, []FailedLease, []Settled]
	breakers breakers
	sweep    sweepState
	rotation rotationState
}

var _ Engine = (*Store)(nil)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// ValidateSchemaName accepts lower-case identifiers of at most 63 bytes that Postgres does not reserve.
func ValidateSchemaName(name string) error {
	if !schemaName.MatchString(name) || strings.HasPrefix(name, "pg_") || name == "information_schema" {
		return fmt.Errorf("schema %q must match %s and must not start with 'pg_'", name, schemaName)
	}
	return nil
}

// Open prepares a pool and returns without waiting for the database; the pool connects when it is used.
func Open(ctx context.Context, options Options) (*Store, error) {
	if err := ValidateSchemaName(options.Schema); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(options.DatabaseURL)
	if err != nil {
		return nil, errDatabaseURL
	}
	timeout := options.StatementTimeout
	if timeout <= 0 {
		timeout = defaultStatementTimeout
	}
	config.MaxConns = options.MaxConns
	if config.MaxConns <= 0 {
		config.MaxConns = defaultMaxConns
	}
	pool, err := sessions{
		application: options.ApplicationName, timeout: timeout, dial: options.DialFunc, pooler: options.Pooler,
	}.open(ctx, config)
	if err != nil {
		return nil, err
	}
	jitter := options.Jitter
	if jitter == nil {
		jitter = rand.Float64
	}
	s := &Store{
		pool:           pool,
		pooler:         options.Pooler,
		connConfig:     config.ConnConfig.Copy(),
		sender:         cryptorand.Text(),
		schema:         options.Schema,
		quotedSchema:   pgx.Identifier{options.Schema}.Sanitize(),
		denyUndeclared: options.DenyUndeclaredQueues,
		relaxedAcks:    options.RelaxedAcknowledgements,
		timeout:        timeout,
		jitter:         jitter,
	}
	s.gather()
	return s, nil
}

// errDatabaseURL says nothing of the URL, which holds a password that parse errors may quote.
var errDatabaseURL = errors.New("database URL is not a valid Postgres connection string")

// Close waits for calls under way and closes all connections.
func (s *Store) Close() { s.pool.Close() }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}

// PoolStats is a snapshot of the connection pool.
type PoolStats struct {
	Total, Idle, Acquired, Max int32
	// Waits counts acquisitions that had to wait, WaitTime is how long they waited together.
	Waits    int64
	WaitTime time.Duration
}

// PoolStats returns the pool's figures now.
func (s *Store) PoolStats() PoolStats {
	stat := s.pool.Stat()
	return PoolStats{
		Total: stat.TotalConns(), Idle: stat.IdleConns(), Acquired: stat.AcquiredConns(), Max: stat.MaxConns(),
		Waits: stat.EmptyAcquireCount(), WaitTime: stat.EmptyAcquireWaitTime(),
	}
}

// sql puts the schema into a statement, once per statement.
func (s *Store) sql(statement string) string {
	if cached, ok := s.statements.Load(statement); ok {
		return cached.(string) //nolint:forcetypeassert // only strings are stored
	}
	qualified := s.qualify(statement)
	s.statements.Store(statement, qualified)
	return qualified
}

// qualify puts the schema into a statement that is made anew for the segments there are, and not worth remembering.
func (s *Store) qualify(statement string) string {
	return strings.ReplaceAll(statement, "{schema}", s.quotedSchema)
}

// bound gives an operation the statement timeout, and a margin for the way there and back.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout+time.Second)
}

// inTx runs f in one transaction, under the operation's time bound.
func (s *Store) inTx(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	//nolint:wrapcheck // wrapped by the operation, which knows what it was doing
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(ctx, tx) })
}

// collect runs a statement and scans every row.
func collect[T any](ctx context.Context, db querier, scan func(pgx.CollectableRow) (T, error), sql string, args ...any,
) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan) //nolint:wrapcheck // wrapped by the operation, which knows what it was doing
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// IsUnsent reports whether err says that nothing was asked of the database at all, because there was no connection.
func IsUnsent(err error) bool {
	var connectErr *pgconn.ConnectError
	return errors.As(err, &connectErr) || pgconn.SafeToRetry(err)
}

// IsUnavailable reports whether err says that the database could not be reached, is going away or has no room, rather
// than that it refused what was asked: the call may be repeated later.
func IsUnavailable(err error) bool {
	if err == nil {
		return false
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		// Connection (08), resources (53), operator intervention (57), a deadlock's victim (40), a lock that was not to be
		// had in time (55P03), and a read-only standby (25006).
		class := pgErr.Code[:2]
		return slices.Contains([]string{"08", "40", "53", "57"}, class) || pgErr.Code == "25006" || pgErr.Code == "55P03"
	}
	var connectErr *pgconn.ConnectError
	return errors.As(err, &connectErr) || pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) ||
		pgconn.SafeToRetry(err) || isBrokenConnection(err) || errors.Is(err, errUnset) || errors.Is(err, errNotPreparing)
}
