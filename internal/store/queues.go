package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// Errors of queue management.
var (
	// ErrNotOwner is returned when another Queue resource declares the queue.
	ErrNotOwner = errors.New("queue is declared by another Queue resource")
	// ErrQueueNotEmpty is returned when a queue that must be empty still holds messages.
	ErrQueueNotEmpty = errors.New("queue is not empty")
)

// queueIDSQL is the id of the queue named by parameter $1.
const queueIDSQL = `(SELECT id FROM {schema}.queue WHERE name = $1)`

// depthSQL is the depth of queue q: counters plus what was appended since, and one index probe for each age in each
// place that may hold the oldest.
func depthSQL(live segments) string {
	var heads []string
	for priority := range message.MaxPriority + 1 {
		heads = append(heads, `(SELECT m.ready_at FROM {schema}.message m
        WHERE `+readySQL("q.id", priority)+` ORDER BY m.ready_at, m.id LIMIT 1)`)
	}
	for _, seg := range live {
		heads = append(heads, slotTables(`(SELECT l.created_at FROM {log} l
        WHERE l.queue_id = q.id AND l.id > coalesce((SELECT last FROM {claim} k WHERE k.queue_id = q.id
            ORDER BY first DESC LIMIT 1), 0) ORDER BY l.id LIMIT 1)`, seg.slot))
	}
	return `
    coalesce(d.pending, 0) + coalesce(x.pending, 0), coalesce(d.processing, 0) + coalesce(x.processing, 0),
    coalesce(d.succeeded, 0) + coalesce(x.succeeded, 0), coalesce(d.dead, 0) + coalesce(x.dead, 0),
    CASE WHEN coalesce(d.pending, 0) + coalesce(x.pending, 0) > 0 THEN least(` + strings.Join(heads, ", ") + `) END,
    (SELECT m.dead_at FROM {schema}.message m WHERE m.queue_id = q.id AND m.status = 'dead'
     ORDER BY m.dead_at, m.id LIMIT 1),
    now()`
}

func depthFromSQL(live segments) string {
	deltas := []string{"SELECT * FROM {schema}.depth_delta"}
	for _, seg := range live {
		deltas = append(deltas, slotTables("SELECT * FROM {delta}", seg.slot))
	}
	return `
FROM {schema}.queue q
LEFT JOIN {schema}.depth d ON d.queue_id = q.id
LEFT JOIN (
    SELECT queue_id, sum(pending)::bigint AS pending, sum(processing)::bigint AS processing,
        sum(succeeded)::bigint AS succeeded, sum(dead)::bigint AS dead
    FROM (` + strings.Join(deltas, " UNION ALL ") + `) delta GROUP BY queue_id
) x ON x.queue_id = q.id`
}

func queueInfoSQL(live segments) string {
	return `
SELECT q.name, coalesce(q.owner_namespace, ''), coalesce(q.owner_name, ''), q.created_at,
    q.breaker, q.breaker_changed_at, q.breaker_open_until, ` + queueColumns + `, ` +
		depthSQL(live) + depthFromSQL(live)
}

func oneQueueSQL(live segments) string { return queueInfoSQL(live) + ` WHERE q.name = $1` }
func queuePageSQL(live segments) string {
	return queueInfoSQL(live) + ` WHERE q.name > $1 ORDER BY q.name LIMIT $2`
}

func allDepthsSQL(live segments) string {
	return `SELECT q.name, ` + depthSQL(live) + depthFromSQL(live)
}

const queueOwnerSQL = `
SELECT id, coalesce(owner_namespace, ''), coalesce(owner_name, '') FROM {schema}.queue WHERE name = $1`

func depthTargets(d *Depth) []any {
	return []any{&d.Pending, &d.Processing, &d.Succeeded, &d.Dead, &d.OldestReadyAt, &d.OldestDeadAt, &d.ObservedAt}
}

func (d *Depth) normalise() {
	d.OldestReadyAt, d.OldestDeadAt, d.ObservedAt = utc(d.OldestReadyAt), utc(d.OldestDeadAt), d.ObservedAt.UTC()
}

func scanQueueInfo(row pgx.CollectableRow) (QueueInfo, error) {
	var (
		info QueueInfo
		scan settingsScan
	)
	targets := []any{
		&info.Name, &info.Owner.Namespace, &info.Owner.Name, &info.CreatedAt,
		&info.Breaker.State, &info.Breaker.ChangedAt, &info.Breaker.OpenUntil,
	}
	targets = append(append(targets, scan.targets()...), depthTargets(&info.Depth)...)
	if err := row.Scan(targets...); err != nil {
		return info, err //nolint:wrapcheck // wrapped by the operation
	}
	info.Settings, info.Declared, info.CreatedAt = scan.settings(), info.Owner.Name != "", info.CreatedAt.UTC()
	info.Breaker.ChangedAt, info.Breaker.OpenUntil = info.Breaker.ChangedAt.UTC(), utc(info.Breaker.OpenUntil)
	info.Depth.normalise()
	return info, nil
}

// Queue returns one queue, or ErrNotFound.
func (s *Store) Queue(ctx context.Context, name string) (QueueInfo, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return QueueInfo{}, fmt.Errorf("read queue: %w", err)
	}
	infos, err := collect(ctx, s.pool, scanQueueInfo, s.qualify(oneQueueSQL(live)), name)
	switch {
	case err != nil:
		return QueueInfo{}, fmt.Errorf("read queue: %w", err)
	case len(infos) == 0:
		return QueueInfo{}, ErrNotFound
	default:
		return infos[0], nil
	}
}

// Queues returns up to limit queues by name, those after afterName.
func (s *Store) Queues(ctx context.Context, afterName string, limit int) ([]QueueInfo, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	infos, err := collect(ctx, s.pool, scanQueueInfo, s.qualify(queuePageSQL(live)), afterName, limit)
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return infos, nil
}

// Depths returns the depth of every queue, in one statement.
func (s *Store) Depths(ctx context.Context) (map[string]Depth, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("read depths: %w", err)
	}
	depths := map[string]Depth{}
	_, err = collect(ctx, s.pool, func(row pgx.CollectableRow) (struct{}, error) {
		var (
			name  string
			depth Depth
		)
		err := row.Scan(append([]any{&name}, depthTargets(&depth)...)...)
		depth.normalise()
		depths[name] = depth
		return struct{}{}, err //nolint:wrapcheck // wrapped below
	}, s.qualify(allDepthsSQL(live)))
	if err != nil {
		return nil, fmt.Errorf("read depths: %w", err)
	}
	return depths, nil
}

// DeclareQueue creates the queue or brings its settings and owner up to date, and reports whether anything changed.
// Which of two resources may declare a queue is decided before, where both can be seen.
func (s *Store) DeclareQueue(ctx context.Context, name string, owner Owner, settings message.Settings) (bool, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	args := append([]any{name}, settingsArgs(settings)...)
	tag, err := s.pool.Exec(ctx, s.sql(declareQueueSQL), append(args, owner.Namespace, owner.Name)...)
	if err != nil {
		return false, fmt.Errorf("declare queue: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

const undeclareQueueSQL = `
UPDATE {schema}.queue SET owner_namespace = NULL, owner_name = NULL, state = 'Active', closed_until = NULL,
    updated_at = now()
WHERE name = $1 AND owner_namespace = $2 AND owner_name = $3`

// UndeclareQueue lets go of a queue: it keeps its messages and settings, but for the state, which nobody could change
// any more: it is Active again. A queue of another owner, or none, is left as it is.
func (s *Store) UndeclareQueue(ctx context.Context, name string, owner Owner) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := s.pool.Exec(ctx, s.sql(undeclareQueueSQL), name, owner.Namespace, owner.Name); err != nil {
		return fmt.Errorf("release queue: %w", err)
	}
	return nil
}

const closeQueueSQL = `
UPDATE {schema}.queue SET closed_until = now() + $4 * interval '1 millisecond'
WHERE name = $1 AND (owner_namespace = $2 AND owner_name = $3 OR owner_name IS NULL)`

// CloseQueue has a queue refuse new messages for a while: an enqueue returns ErrClosedQueue. What is in it can be
// claimed, settled and replayed. A queue of another owner is left as it is.
func (s *Store) CloseQueue(ctx context.Context, name string, owner Owner, span time.Duration) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := s.pool.Exec(ctx, s.sql(closeQueueSQL), name, owner.Namespace, owner.Name, millis(span)); err != nil {
		return fmt.Errorf("close queue: %w", err)
	}
	return nil
}
