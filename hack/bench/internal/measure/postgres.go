package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Written is what a Postgres server has written and run so far. It is exact at once, unlike the statistics views.
type Written struct {
	// WALBytes is the position in the write-ahead log.
	WALBytes int64
	// Transactions is how many transactions have written.
	Transactions int64
	// Statements and StatementTime are what pg_stat_statements counted in this database; 0 without the extension.
	Statements    int64
	StatementTime time.Duration
}

// Minus is what came after an earlier look.
func (w Written) Minus(before Written) Written {
	return Written{
		WALBytes:      w.WALBytes - before.WALBytes,
		Transactions:  w.Transactions - before.Transactions,
		Statements:    w.Statements - before.Statements,
		StatementTime: w.StatementTime - before.StatementTime,
	}
}

// ReadWritten looks at the server and at the database of the connection.
func ReadWritten(ctx context.Context, conn *pgx.Conn) (Written, error) {
	var w Written
	err := conn.QueryRow(ctx, `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn,
		pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&w.WALBytes, &w.Transactions)
	if err != nil {
		return w, fmt.Errorf("read the write-ahead log's position: %w", err)
	}
	var extension bool
	err = conn.QueryRow(ctx, `SELECT to_regclass('pg_stat_statements') IS NOT NULL`).Scan(&extension)
	if err != nil || !extension {
		return w, err
	}
	var millis float64
	err = conn.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(total_exec_time), 0)
		FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%pg_current_wal_lsn%'`).
		Scan(&w.Statements, &millis)
	w.StatementTime = time.Duration(millis * float64(time.Millisecond))
	if err != nil {
		return w, fmt.Errorf("read pg_stat_statements: %w", err)
	}
	return w, nil
}

// Rows is what the tables of a database have been through. Sessions report it late, but at the latest when they end.
type Rows struct {
	// Dead is how many row versions wait for vacuum now.
	Dead int64
	// Killed is how many row versions updates and deletes have left behind, vacuumed since or not.
	Killed int64
}

// ReadRows looks at all tables of the database of the connection.
func ReadRows(ctx context.Context, conn *pgx.Conn) (Rows, error) {
	var rows Rows
	err := conn.QueryRow(ctx, `SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint
		FROM pg_stat_user_tables`).Scan(&rows.Dead, &rows.Killed)
	if err != nil {
		return rows, fmt.Errorf("read the tables' statistics: %w", err)
	}
	return rows, nil
}

// TopStatements lists the statements of the database by the time spent in them, most first.
func TopStatements(ctx context.Context, conn *pgx.Conn, limit int) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT format('%s calls, %s ms each, %s rows each: %s', calls,
			round(mean_exec_time::numeric, 3), round(rows::numeric / greatest(calls, 1), 1),
			regexp_replace(query, '\s+', ' ', 'g'))
		FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
		ORDER BY total_exec_time DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read pg_stat_statements: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
