package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"deadletter.dev/deadletter/internal/message"
)

// defaultClaimBytes bounds the memory of one claim.
const defaultClaimBytes = 4 << 20

// SKIP LOCKED gives concurrent claims disjoint messages; MATERIALIZED keeps the LIMIT from being run more than once.
const claimSQL = `
WITH q AS MATERIALIZED (
    SELECT id, visibility_timeout_ms FROM {schema}.queue WHERE name = $1 AND state = 'Active'
), ready AS MATERIALIZED (
    SELECT id, ready_at, octet_length(payload) AS size FROM {schema}.message
    WHERE queue_id = (SELECT id FROM q) AND status = 'pending' AND ready_at <= now()
    ORDER BY ready_at, id LIMIT $2
    FOR UPDATE SKIP LOCKED
), fitting AS MATERIALIZED (
    SELECT id FROM (SELECT id, sum(size) OVER (ORDER BY ready_at, id) - size AS before FROM ready) r WHERE before < $6
)
UPDATE {schema}.message m
SET status = 'processing', delivery_count = m.delivery_count + 1, attempt_count = m.attempt_count + 1, delayed = false,
    lease_token = gen_random_uuid(),
    lease_expires_at = now() + coalesce(nullif($3::bigint, 0), (SELECT visibility_timeout_ms FROM q))
        * interval '1 millisecond',
    claimed_at = now(), claimed_by = $4, claimed_version = $5, updated_at = now()
FROM fitting WHERE m.id = fitting.id
RETURNING ` + messageColumns

// Claim implements Engine.
func (s *Store) Claim(ctx context.Context, queue string, params ClaimParams) ([]message.Message, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	consumer := message.NewConsumer(params.Consumer)
	rows, err := collect(ctx, s.pool, messageOf(queue), s.sql(claimSQL),
		queue, params.Max, millis(params.VisibilityTimeout), consumer.Instance, consumer.Version,
		cmp.Or(params.MaxBytes, defaultClaimBytes))
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	slices.SortFunc(rows, func(a, b messageRow) int {
		return cmp.Or(a.readyAt.Compare(b.readyAt), cmp.Compare(a.ID, b.ID))
	})
	return plain(rows), nil
}
