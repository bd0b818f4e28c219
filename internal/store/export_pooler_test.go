package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Ways are the ways in which the store runs a statement that returns texts.
func (s *Store) Ways() map[string]func(ctx context.Context, sql string, args ...any) ([]string, error) {
	return map[string]func(ctx context.Context, sql string, args ...any) ([]string, error){
		"rows": func(ctx context.Context, sql string, args ...any) ([]string, error) {
			return collect(ctx, s.pool, pgx.RowTo[string], sql, args...)
		},
		"row": func(ctx context.Context, sql string, args ...any) ([]string, error) {
			texts := make([]string, 1)
			err := s.pool.QueryRow(ctx, sql, args...).Scan(&texts[0])
			return texts, err
		},
		"nothing": func(ctx context.Context, sql string, args ...any) ([]string, error) {
			_, err := s.pool.Exec(ctx, sql, args...)
			return nil, err
		},
		"batch": func(ctx context.Context, sql string, args ...any) ([]string, error) {
			return locked(ctx, s, "test", pgx.RowTo[string], sql, args...)
		},
		"transaction": func(ctx context.Context, sql string, args ...any) (texts []string, err error) {
			err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				texts, err = collect(ctx, tx, pgx.RowTo[string], sql, args...)
				return err
			})
			return texts, err
		},
	}
}

// NewConnections is how many connections the pool has opened.
func (s *Store) NewConnections() int64 { return s.pool.Stat().NewConnsCount() }

// SessionParameters are the names of what a session of a store sets when it starts.
func SessionParameters(pooler Pooler) []string {
	config, _ := pgx.ParseConfig("host=127.0.0.1")
	sessions{pooler: pooler, application: "x"}.configure(config)
	var names []string
	for name := range config.RuntimeParams {
		names = append(names, name)
	}
	return names
}
