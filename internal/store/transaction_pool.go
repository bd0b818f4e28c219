package store

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// beginSQL begins a transaction whose isolation does not hang on the default of the session that it gets.
const beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED"

func beginWith(prelude string) string { return beginSQL + "; " + prelude }

// transactionPool runs statements in sessions that are lent for one transaction each. A session is what others left of
// it, so every transaction begins with a prelude that sets what the statements need, for the transaction alone, and a
// statement that would run on its own is made a transaction. All of it is one round trip.
type transactionPool struct {
	*pgxpool.Pool

	prelude string
}

// Begin starts a transaction.
func (p *transactionPool) Begin(ctx context.Context) (pgx.Tx, error) {
	//nolint:wrapcheck // wrapped by the operation, which knows what it was doing
	return p.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginWith(p.prelude)})
}

// SendBatch runs the statements of a batch in one transaction.
func (p *transactionPool) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return unsentBatch{err}
	}
	whole := &pgx.Batch{}
	whole.Queue(beginSQL)
	whole.Queue(p.prelude)
	whole.QueuedQueries = append(whole.QueuedQueries, batch.QueuedQueries...)
	whole.Queue("COMMIT")
	t := &batchTransaction{BatchResults: conn.SendBatch(ctx, whole), end: func() {
		if raw := conn.Conn(); !raw.IsClosed() && raw.PgConn().TxStatus() != 'I' {
			// Failed, it ends here. If that fails, too, the connection is not used again.
			_, _ = raw.Exec(ctx, "ROLLBACK")
		}
		conn.Release()
	}}
	for range whole.Len() - batch.Len() - 1 {
		_, _ = t.Exec() // An error is that of all further results.
	}
	return t
}

// Query runs one statement in a transaction, which is committed once the rows have been read.
func (p *transactionPool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results := p.sendOne(ctx, sql, args)
	rows, err := results.Query() //nolint:rowserrcheck // whoever reads the rows checks
	if err != nil {
		_ = results.Close() // Which has the same error.
		return nil, err     //nolint:wrapcheck // wrapped by the operation, which knows what it was doing
	}
	return &transactionRows{Rows: rows, results: results}, nil
}

// QueryRow runs one statement in a transaction.
func (p *transactionPool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...) //nolint:rowserrcheck // Scan checks
	return transactionRow{rows, err}
}

// Exec runs one statement in a transaction.
func (p *transactionPool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results := p.sendOne(ctx, sql, args)
	tag, _ := results.Exec()
	return tag, results.Close() //nolint:wrapcheck // wrapped by the operation, which knows what it was doing
}

func (p *transactionPool) sendOne(ctx context.Context, sql string, args []any) pgx.BatchResults {
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	return p.SendBatch(ctx, batch)
}

// batchTransaction are the results of a batch that is a transaction.
type batchTransaction struct {
	pgx.BatchResults

	// end gives the connection back; nil when that is done.
	end func()
}

// Close returns the error of the first statement that failed, the commit among them.
func (t *batchTransaction) Close() error {
	err := t.BatchResults.Close()
	if t.end != nil {
		t.end()
		t.end = nil
	}
	return err //nolint:wrapcheck // wrapped by the operation, which knows what it was doing
}

// transactionRows are rows that are not there before the transaction is committed.
type transactionRows struct {
	pgx.Rows

	results pgx.BatchResults
	err     error
}

func (r *transactionRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *transactionRows) Close() {
	r.Rows.Close()
	r.err = r.results.Close()
}

// Err is that of the commit, too, once the rows are closed.
func (r *transactionRows) Err() error {
	if r.err != nil {
		return r.err
	}
	return r.Rows.Err() //nolint:wrapcheck // wrapped by the operation, which knows what it was doing
}

// transactionRow is the first of the rows.
type transactionRow struct {
	rows pgx.Rows
	err  error
}

func (r transactionRow) Scan(targets ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err //nolint:wrapcheck // wrapped by the operation, which knows what it was doing
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(targets...); err != nil {
		return err //nolint:wrapcheck // wrapped by the operation, which knows what it was doing
	}
	r.rows.Close()
	return r.rows.Err() //nolint:wrapcheck // wrapped by the operation, which knows what it was doing
}

// unsentBatch is a batch for which there was no connection.
type unsentBatch struct{ err error }

func (b unsentBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, b.err }
func (b unsentBatch) Query() (pgx.Rows, error)         { return nil, b.err }
func (b unsentBatch) QueryRow() pgx.Row                { return transactionRow{nil, b.err} }
func (b unsentBatch) Close() error                     { return b.err }
func (unsentBatch) Tx() pgx.Tx                         { return nil }
