package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// pin is a transaction of someone else's that keeps Postgres from removing dead rows.
type pin struct {
	name, begin string
	// holds are run to begin with; what a query returns is run in turn.
	holds []string
}

var (
	readerPin = pin{
		"a reader", "BEGIN ISOLATION LEVEL REPEATABLE READ",
		[]string{"SELECT 'SELECT ' || count(*) FROM pg_class"},
	}
	writerPin = pin{"idle with an id", "BEGIN", []string{"SELECT 'SELECT ' || quote_literal(pg_current_xact_id())"}}
	// dumpPin is what pg_dump does: the snapshot of a reader and a lock on every table.
	dumpPin = pin{
		"a dump", "BEGIN ISOLATION LEVEL REPEATABLE READ",
		[]string{
			`SELECT format('LOCK TABLE %I.%I IN ACCESS SHARE MODE', schemaname, tablename) FROM pg_tables
			WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
		},
	}
)

// hold begins the transaction. The returned function ends it, and fails if it had been ended before.
func (p pin) hold(ctx context.Context, url string) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := p.take(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return func() error {
		_, err := conn.Exec(ctx, "SELECT 1")
		if err != nil {
			err = fmt.Errorf("the transaction that held the horizon is gone: %w", err)
		}
		return errors.Join(err, conn.Close(ctx))
	}, nil
}

func (p pin) take(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, p.begin); err != nil {
		return err
	}
	for _, query := range p.holds {
		rows, err := conn.Query(ctx, query)
		if err != nil {
			return err
		}
		statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
	return nil
}
