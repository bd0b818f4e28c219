package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// readySQL is the condition that a message m of the table message can be claimed, of one priority and of the queue
// whose id is an expression: an index finds it in one step.
func readySQL(queueID string, priority int) string {
	return `m.queue_id = ` + queueID + ` AND m.status = 'pending' AND NOT m.blocked AND m.priority = ` +
		strconv.Itoa(priority) + ` AND m.ready_at <= now()`
}

// anyReadySQL tells whether the table message has anything for the queue to claim.
func anyReadySQL(queueID string) string {
	var probes []string
	for priority := range message.MaxPriority + 1 {
		probes = append(probes, "EXISTS (SELECT FROM {schema}.message m WHERE "+readySQL(queueID, priority)+")")
	}
	return "(" + strings.Join(probes, " OR ") + ")"
}

// readyQueuesSQL is one index probe for each place that may hold a ready message of a queue.
func readyQueuesSQL(live segments) string {
	places := []string{anyReadySQL("q.id")}
	for _, seg := range live {
		places = append(places, slotTables(`EXISTS (SELECT FROM {log} l WHERE l.queue_id = q.id AND l.id > coalesce((
        SELECT last FROM {claim} k WHERE k.queue_id = q.id ORDER BY first DESC LIMIT 1), 0))`, seg.slot))
	}
	return `
SELECT q.name FROM unnest($1::text[]) AS waited (name)
CROSS JOIN LATERAL (SELECT * FROM {schema}.queue k WHERE k.name = waited.name OFFSET 0) q
WHERE q.state = 'Active' AND (q.breaker = 'Closed' OR q.breaker_probes_left > 0)
    AND (` + strings.Join(places, " OR ") + ")"
}

// ReadyQueues returns those of the named queues that have something to claim now.
func (s *Store) ReadyQueues(ctx context.Context, names []string) ([]string, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	live, err := s.reloadSegments(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("look for ready queues: %w", err)
	}
	ready, err := collect(ctx, s.pool, pgx.RowTo[string], s.qualify(readyQueuesSQL(live)), names)
	if err != nil {
		return nil, fmt.Errorf("look for ready queues: %w", err)
	}
	return ready, nil
}
