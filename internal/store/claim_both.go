package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// claimBothSQL claims from the log and from the table message, the highest priority first and then first ready first.
// In a segment that is not the last it takes nothing that is ready after the segment's end, unless that has a priority.
//
// The log goes by id, whatever the clock did meanwhile: a claim is a range of ids, and must leave none out. SKIP LOCKED
// passes over what another statement has in hand; MATERIALIZED keeps the LIMIT from being run more than once.
var claimBothSQL = claimSourceSQL + `, other AS MATERIALIZED (
    SELECT m.* FROM (VALUES (3), (2), (1), (0)) AS p (priority) CROSS JOIN LATERAL (
        SELECT id, ready_at, octet_length(payload) AS size, priority FROM {schema}.message
        WHERE queue_id = (SELECT id FROM q) AND status = 'pending' AND NOT blocked AND priority = p.priority
            AND ready_at <= (SELECT now FROM q) AND (expires_at IS NULL OR expires_at > (SELECT now FROM q))
        ORDER BY ready_at, id LIMIT $3
        FOR UPDATE SKIP LOCKED
    ) m LIMIT $3
), next AS MATERIALIZED (
    SELECT id, max(created_at) OVER earlier AS ready_at, size, ` + expiredSoFarSQL + ` AS expired FROM (
        SELECT l.id, l.created_at, octet_length(l.payload) AS size, l.expires_at FROM {log} l
        WHERE l.queue_id = (SELECT id FROM q WHERE live) AND l.id > (SELECT id FROM reached)
        ORDER BY l.id LIMIT $3
    ) read WINDOW earlier AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
), logged AS MATERIALIZED (
    SELECT id, ready_at, size, 0 AS priority FROM next WHERE NOT expired
), placed AS MATERIALIZED (
    SELECT r.*, row_number() OVER earlier AS place, sum(size) OVER earlier - size AS before
    FROM (SELECT *, false AS logged FROM other UNION ALL SELECT *, true FROM logged) r
    WINDOW earlier AS (ORDER BY priority DESC, ready_at, id ROWS UNBOUNDED PRECEDING)
), due AS MATERIALIZED (
    SELECT p.* FROM q, placed p
    WHERE p.place <= $3 AND (q.current_no = $9 OR p.logged OR p.priority > 0
        OR (p.ready_at, p.id) < (SELECT l.ready_at, l.id FROM logged l ORDER BY l.id DESC LIMIT 1))
), fitting AS MATERIALIZED (
    SELECT *, ($2::int[])[place] AS request FROM due WHERE before < $4
), made AS MATERIALIZED (
    SELECT f.request, min(f.id) AS first, max(f.id) AS last, count(*) AS n, ` + claimExpirySQL + ` AS expires
    FROM q, fitting f WHERE f.logged GROUP BY f.request, q.now, q.visibility_timeout_ms
), claim AS (
    INSERT INTO {claim} (queue_id, first, last, n, nonce, claimed_at, expires_at, instance, version)
    SELECT q.id, m.first, m.last, m.n, ($5::bigint[])[m.request], q.now, m.expires, ($7::text[])[m.request],
        ($8::text[])[m.request]
    FROM q, made m
), counted AS (
    INSERT INTO {delta} SELECT q.id, -sum(m.n), sum(m.n), 0, 0 FROM q, made m GROUP BY q.id
), held AS (
    UPDATE {schema}.message m
    SET status = 'processing', delivery_count = m.delivery_count + 1, attempt_count = m.attempt_count + 1,
        delayed = false, lease_token = gen_random_uuid(), lease_expires_at = ` + claimExpirySQL + `,
        claimed_at = q.now, claimed_by = ($7::text[])[f.request], claimed_version = ($8::text[])[f.request],
        updated_at = q.now
    FROM q, fitting f WHERE m.id = f.id AND NOT f.logged
    RETURNING ` + messageColumns + `, f.place, f.request
), taken AS (
    SELECT * FROM held
    UNION ALL
    SELECT l.id, l.payload, octet_length(l.payload), l.headers, 'processing', 0, l.max_retries, 1, 0, 1, l.created_at,
        false, ` + tokenSQL("m.first", "($5::bigint[])[f.request]") + `, m.expires, q.now, ($7::text[])[f.request],
        ($8::text[])[f.request], ` + noFailureSQL + `, NULL, l.created_at, q.now, 0, NULL,
        l.expires_at, f.place, f.request
    FROM q, fitting f, {log} l, made m
    WHERE f.logged AND l.queue_id = q.id AND l.id = f.id AND m.request = f.request
)
SELECT t.*, q.current_no, (SELECT count(*) FROM due), EXISTS (SELECT FROM next WHERE expired) FROM taken t, q`

// claimFromBoth claims from the log and the table message.
func (s *Store) claimFromBoth(ctx context.Context, queue string, seg segment, open *claimants) (claimResult, error) {
	type placed struct {
		messageRow

		place, request, ready int
		currentNo             int64
		expired               bool
	}
	rows, err := relaxedRows(ctx, s, claimLock(queue), func(row pgx.CollectableRow) (p placed, err error) {
		p.messageRow, err = scanMessage(row, queue, &p.place, &p.request, &p.currentNo, &p.ready, &p.expired)
		return p, err
	}, s.slotSQL(claimBothSQL, seg.slot), open.args(queue, seg)...)
	if err != nil {
		return claimResult{}, err
	}
	if len(rows) == 0 { // Someone else was faster, or what is next in the log has expired.
		killed, err := s.killExpired(ctx, queue, seg)
		return claimResult{currentNo: seg.no, expired: killed > 0}, err
	}
	slices.SortFunc(rows, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	for i := range rows {
		open.give(rows[i].request, rows[i].Message)
	}
	return claimResult{
		got: len(rows), currentNo: rows[0].currentNo, cut: len(rows) < rows[0].ready, expired: rows[0].expired,
	}, nil
}
