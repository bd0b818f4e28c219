package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// Statement is a hot statement with its parameters, for plan tests.
type Statement struct {
	SQL  string
	Args []any
}

// HotStatements are the statements whose cost must not grow with the size of the queue, for an id in the table message
// and one in the log.
func (s *Store) HotStatements(ctx context.Context, queue string, id, logged int64) (map[string]Statement, error) {
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	slot := live.current().slot
	claimants := newClaimants([]ClaimParams{{Max: 10, MaxBytes: 1 << 20}}, make([][]message.Message, 1), false, false)
	claim := claimants.args(queue, live.current())
	enqueue := []any{queue, [][]byte{{1}}, []string{"[]"}, []int32{0}, false, live.current().no}
	items := []any{queue, []int64{logged}, []int64{anyLease}, []int64{0}, []bool{true}}
	return map[string]Statement{
		"enqueue":          {s.slotSQL(enqueueLogSQL, slot), enqueue},
		"claim from log":   {s.slotSQL(claimLogSQL, slot), claim},
		"claim from both":  {s.slotSQL(claimBothSQL, slot), claim},
		"succeed in log":   {s.slotSQL(succeedLogSQL, slot), items},
		"move":             {s.slotSQL(moveSQL, slot), items},
		"due claims":       {s.slotSQL(dueClaimsSQL, slot), []any{time.Now(), 10}},
		"succeed":          {s.sql(succeedSQL), []any{queue, []int64{id}, []string{""}}},
		"lock held":        {s.sql(lockHeldSQL), []any{queue, []int64{id}, []string{""}}},
		"expired leases":   {s.sql(lockExpiredSQL), []any{10}},
		"refusals":         {s.sql(refusalSQL), []any{queue, []int64{id, logged}}},
		"get":              {s.slotSQL(getAnywhereSQL, slot), []any{queue, logged}},
		"list":             {s.sql(listSQL("", live)), []any{queue, id, 20, 0}},
		"list dead":        {s.sql(listSQL(message.Dead, live)), []any{queue, int64(0), 20, 0}},
		"list pending":     {s.sql(listSQL(message.Pending, live)), []any{queue, int64(0), 20, 0}},
		"list processing":  {s.sql(listSQL(message.Processing, live)), []any{queue, int64(0), 20, 0}},
		"list succeeded":   {s.sql(listSQL(message.Succeeded, live)), []any{queue, int64(0), 20, 0}},
		"replay one":       {s.sql(replayOneSQL), []any{sourceAPI, 10, 40, queue, id}},
		"depth":            {s.sql(oneQueueSQL(live)), []any{queue}},
		"all depths":       {s.sql(allDepthsSQL(live)), nil},
		"purge pending":    {s.slotSQL(purgePendingLogSQL, slot), []any{queue, time.Now(), 10, int64(0), int64(1)}},
		"purge succeeded":  {s.slotSQL(purgeSucceededLogSQL, slot), []any{queue, time.Now(), 10, int64(0), int64(1)}},
		"purge dead":       {s.sql(purgeableStatement(purges[message.Dead])), []any{queue, time.Now(), 10}},
		"purge rows":       {s.sql(purgeableStatement(purges[message.Pending])), []any{queue, time.Now(), 10}},
		"expired messages": {s.sql(expiredRowsSQL), []any{10}},
		"expired in log":   {s.slotSQL(expiringQueuesSQL, slot), nil},
		"kill expired":     {s.slotSQL(killLoggedSQL, slot), append(append([]any{queue}, expiryArgs()...), 10, int64(1))},
		"enqueue elsewhere": {s.sql(enqueueOtherSQL), []any{
			queue,
			[][]byte{{1}},
			[]string{"[]"},
			[]int32{0},
			false,
			[]int64{0},
			[]int16{1},
			[]string{"k"},
			[]int64{0},
			false, nil, nil, nil, nil,
		}},
		"discard":          {s.sql(discardSQL), []any{queue, id}},
		"ready queues":     {s.sql(readyQueuesSQL(live)), []any{[]string{queue}}},
		"expire succeeded": {s.sql(expireSucceededSQL), []any{10}},
		"expire dead":      {s.sql(expireDeadSQL), []any{10}},
	}, nil
}

// Begin starts a transaction with the settings that every statement of the store runs under.
func (s *Store) Begin(ctx context.Context) (pgx.Tx, error) { return s.pool.Begin(ctx) }

// ForgetSweeps makes the next sweep look at every claim, as after a change of the clock.
func (s *Store) ForgetSweeps() {
	s.sweep.mu.Lock()
	defer s.sweep.mu.Unlock()
	s.sweep.segments = nil
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

// OpenAfter opens a segment as a pass would for which segment no is the newest.
func (s *Store) OpenAfter(ctx context.Context, rotation Rotation, no int64) (bool, error) {
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return false, err
	}
	var result RotationResult
	err = (&rotator{Store: s, Rotation: rotation, result: &result}).open(ctx, live.from(no)[0])
	return result.Opened, err
}

// FreeSegment frees segment no as a pass would that takes it for one in which nothing is to be kept.
func (s *Store) FreeSegment(ctx context.Context, no int64) (bool, error) {
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return false, err
	}
	return (&rotator{Store: s, result: &RotationResult{}}).free(ctx, live.from(no)[0])
}

// ClaimLockKey is the advisory lock of a queue's claims.
func (s *Store) ClaimLockKey(queue string) int64 { return advisoryKey(claimLock(queue), s.schema) }

// ReadyChannel is the channel of a schema's notifications.
func ReadyChannel(schema string) string { return readyChannel(schema) }

// ReadyPayloads are the payloads of one notification.
func ReadyPayloads(sender string, queues []string) []string { return readyPayloads(sender, queues) }

// ExpiryLockKey is the advisory lock of the process that looks for expired messages.
func (s *Store) ExpiryLockKey() int64 { return advisoryKey(expiryLock, s.schema) }
