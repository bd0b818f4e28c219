package store

import "context"

// Statement is a hot statement with its parameters, for plan tests.
type Statement struct {
	SQL  string
	Args []any
}

// HotStatements are the statements whose cost must not grow with the size of the queue.
func (s *Store) HotStatements(queue string, id int64) map[string]Statement {
	return map[string]Statement{
		"claim":            {s.sql(claimSQL), []any{queue, 10, int64(0), "", "", 1 << 20}},
		"succeed":          {s.sql(succeedSQL), []any{queue, []int64{id}, []string{""}}},
		"lock held":        {s.sql(lockHeldSQL), []any{queue, []int64{id}, []string{""}}},
		"expired leases":   {s.sql(lockExpiredSQL), []any{10}},
		"get":              {s.sql(getSQL), []any{queue, id}},
		"list":             {s.sql(listSQL), []any{queue, id, 20, 0}},
		"list by status":   {s.sql(listByStatusSQL), []any{queue, int64(0), 20, 0, "dead"}},
		"replay one":       {s.sql(replayOneSQL), []any{sourceAPI, 10, 40, queue, id}},
		"depth":            {s.sql(oneQueueSQL), []any{queue}},
		"all depths":       {s.sql(allDepthsSQL), nil},
		"expire succeeded": {s.sql(expireSucceededSQL), []any{10}},
		"expire dead":      {s.sql(expireDeadSQL), []any{10}},
	}
}

// Setting returns a setting of a session of the store's.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	err = s.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}

// SettingSource returns where a session of the store's has a setting from.
func (s *Store) SettingSource(ctx context.Context, name string) (source string, err error) {
	err = s.pool.QueryRow(ctx, "SELECT source FROM pg_settings WHERE name = $1", name).Scan(&source)
	return source, err
}
