package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const connectTimeout = 5 * time.Second

// Pooler is what stands between a Store and the server.
type Pooler string

const (
	// NoPooler is nothing, or a pooler that keeps a session for each connection and passes its parameters on.
	NoPooler Pooler = "none"
	// TransactionPooler gives every transaction whatever session is free, such as PgBouncer with pool_mode = transaction.
	TransactionPooler Pooler = "transaction"
	// PreparingPooler does so, too, and keeps the prepared statements of its clients apart, such as PgBouncer from 1.21 on
	// with max_prepared_statements.
	PreparingPooler Pooler = "transaction-prepared"
)

// shares reports whether a session is a client's for the time of a transaction only.
func (p Pooler) shares() bool { return p == TransactionPooler || p == PreparingPooler }

// sessions are how sessions are made, and what every statement finds set in them.
type sessions struct {
	application string
	timeout     time.Duration
	dial        pgconn.DialFunc
	pooler      Pooler
}

// connections are what statements run on.
type connections interface {
	querier
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
	Begin(ctx context.Context) (pgx.Tx, error)
	Ping(ctx context.Context) error
	Stat() *pgxpool.Stat
	Reset()
	Close()
}

var (
	_ connections = (*pgxpool.Pool)(nil)
	_ connections = (*transactionPool)(nil)
)

// setting is a parameter of a session.
type setting struct{ name, value string }

// settings bound what a statement may do, and how it is planned; the server's own settings are not relied on.
func (s sessions) settings() []setting {
	millis := s.millis()
	return []setting{
		{"statement_timeout", millis},
		{"lock_timeout", millis},
		{"idle_in_transaction_session_timeout", millis},
		// The tables of the log fill from nothing under plans that were made while they were empty, so a plan must not take
		// a scan of a whole table for the cheapest way. Nor is any statement worth compiling.
		{"enable_seqscan", "off"},
		{"enable_bitmapscan", "off"},
		{"enable_mergejoin", "off"},
		{"jit", "off"},
	}
}

func (s sessions) millis() string { return strconv.FormatInt(s.timeout.Milliseconds(), 10) }

// configure prepares a way to the database.
func (s sessions) configure(config *pgx.ConnConfig) {
	config.ConnectTimeout = connectTimeout
	if s.application != "" {
		config.RuntimeParams["application_name"] = s.application
	}
	if s.dial != nil {
		config.DialFunc = s.dial
		// The dialer decides where names lead, so none is looked up before it.
		config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	if s.pooler.shares() {
		if s.pooler == TransactionPooler {
			// The next transaction may be in a session that has not prepared the statement.
			config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
			config.StatementCacheCapacity = 0
		}
		return
	}
	params := config.RuntimeParams
	for _, set := range s.settings() {
		params[set.name] = set.value
	}
	params["default_transaction_isolation"] = "read committed"
	// A session whose client's machine is gone ends, with its locks, within a quarter of a minute.
	params["tcp_keepalives_idle"], params["tcp_keepalives_interval"], params["tcp_keepalives_count"] = "5", "3", "3"
	params["tcp_user_timeout"] = "15000"
}

// open opens a pool of connections.
func (s sessions) open(ctx context.Context, config *pgxpool.Config) (connections, error) {
	s.configure(config.ConnConfig)
	switch s.pooler {
	case TransactionPooler:
	case PreparingPooler:
		config.AfterConnect = requirePreparing
	default:
		config.AfterConnect = s.finish
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	if s.pooler.shares() {
		return &transactionPool{Pool: pool, prelude: s.prelude()}, nil
	}
	return pool, nil
}

// connect opens one connection, and says how its transactions begin.
func (s sessions) connect(ctx context.Context, url string) (*pgx.Conn, pgx.TxOptions, error) {
	var begin pgx.TxOptions
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, begin, errDatabaseURL
	}
	s.configure(config)
	if s.pooler.shares() {
		begin.BeginQuery = beginWith(s.prelude())
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	return conn, begin, err //nolint:wrapcheck // wrapped by the caller
}

// durableSQL overrules a server or role default that would let an accepted message be lost in a crash of the database.
// Every stronger setting is kept.
const durableSQL = `set_config('synchronous_commit',
	coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), %t)`

// prelude is the statement that sets, for a transaction, what a session of the store's own has from its start.
func (s sessions) prelude() string {
	calls := []string{fmt.Sprintf(durableSQL, true)}
	for _, set := range s.settings() {
		calls = append(calls, fmt.Sprintf("set_config('%s', '%s', true)", set.name, set.value))
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// errUnset means that a session does not have what it was started with. It would lose messages, for one thing.
var errUnset = errors.New("the session does not have the settings it was started with: a pooler is in between, " +
	"which has to be said")

// finish sets in any case what commits wait for, so that a session does not follow a later change of the default
// either, and looks whether the other settings came through.
func (s sessions) finish(ctx context.Context, conn *pgx.Conn) error {
	statement := "SELECT current_setting('statement_timeout')::interval = '" + s.millis() + " ms', " +
		fmt.Sprintf(durableSQL, false)
	var came bool
	if err := conn.QueryRow(ctx, statement, pgx.QueryExecModeSimpleProtocol).Scan(&came, nil); err != nil {
		return fmt.Errorf("require durable commits: %w", err)
	}
	if !came {
		return errUnset
	}
	return nil
}

// isUnsaidPooler reports whether err says that there is a pooler of which nobody has said that it shares sessions.
func isUnsaidPooler(err error) bool {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		// This is PgBouncer's own way to say it.
		return pgErr.Code == "08P01" && strings.HasPrefix(pgErr.Message, "unsupported startup parameter")
	}
	return errors.Is(err, errUnset)
}

// errNotPreparing means that a pooler was said to keep prepared statements apart and does not.
var errNotPreparing = errors.New("the pooler does not keep prepared statements apart: it is older than they are, or " +
	"max_prepared_statements is 0")

// requirePreparing looks whether a statement has in the session the name that it was given here. A pooler that keeps
// those of its clients apart gives them names of its own.
func requirePreparing(ctx context.Context, conn *pgx.Conn) error {
	const name = "deadletter_probe"
	var passed bool
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Prepare(ctx, name, "SELECT"); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		query := "SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE name = '" + name + "')"
		if err := tx.QueryRow(ctx, query, pgx.QueryExecModeSimpleProtocol).Scan(&passed); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		return conn.Deallocate(ctx, name)
	})
	if err != nil {
		return fmt.Errorf("look how statements are prepared: %w", err)
	}
	if passed {
		return errNotPreparing
	}
	return nil
}
