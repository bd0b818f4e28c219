package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// defaultClaimBytes bounds the memory of one claim.
const defaultClaimBytes = 4 << 20

// Claim implements Engine.
func (s *Store) Claim(ctx context.Context, queue string, params ClaimParams) ([]message.Message, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	params.Consumer = message.NewConsumer(params.Consumer)
	params.MaxBytes = cmp.Or(params.MaxBytes, defaultClaimBytes)
	claimed, err := s.claimNext(ctx, queue, params)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return claimed, nil
}

// claimNext claims from the log, or from the log and the table message together when the latter has something ready.
// It goes on to the next segment while the one that the queue has reached holds nothing more.
func (s *Store) claimNext(ctx context.Context, queue string, params ClaimParams) ([]message.Message, error) {
	live, err := s.liveSegments(ctx)
	for {
		if err != nil {
			return nil, err
		}
		seg := s.log.reached(queue, live)
		result, err := s.claimFromLog(ctx, queue, seg, params)
		if err == nil && result.others {
			result, err = s.claimFromBoth(ctx, queue, seg, params)
		}
		if err != nil || len(result.messages) > 0 || result.currentNo == 0 || result.currentNo == seg.no {
			return result.messages, err
		}
		if live.current().no != result.currentNo {
			live, err = s.reloadSegments(ctx)
		}
		if rest := live.from(seg.no + 1); len(rest) > 0 {
			s.log.advance(queue, rest[0].no)
		}
	}
}

// reached returns the oldest segment in which the queue may have something left to claim.
func (c *segmentCache) reached(queue string, live segments) segment {
	if no, ok := c.cursors.Load(queue); ok {
		if rest := live.from(no.(int64)); len(rest) > 0 { //nolint:forcetypeassert // only numbers are stored
			return rest[0]
		}
	}
	return live[0]
}

// advance notes that the queue has nothing left to claim before segment no. A segment that is not the last one gets no
// messages any more, so that this stays true.
func (c *segmentCache) advance(queue string, no int64) { c.cursors.Store(queue, no) }

// claimResult is what a claim found.
type claimResult struct {
	messages []message.Message
	// others says that nothing was claimed because the table message has something ready, too.
	others bool
	// currentNo is the number of the newest segment; 0 when the queue is not there or paused.
	currentNo int64
}

// claimSourceSQL begins both claims: the queue, and where its cursor in the segment is. The cursor is the end of the
// last claim, found by one descent of an index, however many claims there were.
const claimSourceSQL = `
WITH q AS MATERIALIZED (
    SELECT q.id, coalesce(nullif($2::bigint, 0), q.visibility_timeout_ms) * interval '1 millisecond' AS visibility,
        clock_timestamp() AS now, (SELECT max(no) FROM {schema}.segment) AS current_no,
        EXISTS (SELECT FROM {schema}.message m
            WHERE m.queue_id = q.id AND m.status = 'pending' AND m.ready_at <= now()) AS others
    FROM {schema}.queue q WHERE q.name = $1 AND q.state = 'Active'
), reached AS MATERIALIZED (
    SELECT coalesce((SELECT last FROM {claim} WHERE queue_id = q.id ORDER BY first DESC LIMIT 1), 0) AS id FROM q
)`

const claimLogSQL = claimSourceSQL + `, ready AS MATERIALIZED (
    SELECT l.id, l.created_at, l.max_retries, l.headers, l.payload FROM {log} l
    WHERE l.queue_id = (SELECT id FROM q WHERE NOT others) AND l.id > (SELECT id FROM reached)
    ORDER BY l.id LIMIT $3
), fitting AS MATERIALIZED (
    SELECT * FROM (
        SELECT *, sum(octet_length(payload)) OVER (ORDER BY id) - octet_length(payload) AS before FROM ready
    ) r WHERE before < $4
), made AS (
    INSERT INTO {claim} (queue_id, first, last, n, nonce, claimed_at, expires_at, instance, version)
    SELECT q.id, min(f.id), max(f.id), count(*), $5, q.now, q.now + q.visibility, $6, $7
    FROM q, fitting f GROUP BY q.id, q.now, q.visibility
), counted AS (
    INSERT INTO {delta} SELECT q.id, -count(*), count(*), 0, 0 FROM q, fitting GROUP BY q.id
)
SELECT q.others, q.current_no, q.now, q.now + q.visibility, f.id, f.created_at, f.max_retries, f.headers, f.payload
FROM q LEFT JOIN fitting f ON true ORDER BY f.id`

// logClaimRow is one message of a claim, or none.
type logClaimRow struct {
	claimResult

	now, expires     time.Time
	id               *int64
	createdAt        *time.Time
	maxRetries       *int
	headers, payload []byte
}

// claimFromLog claims from the log alone, in one round trip.
func (s *Store) claimFromLog(ctx context.Context, queue string, seg segment, params ClaimParams) (claimResult, error) {
	nonce := s.nonce()
	rows, err := lockedRows(ctx, s, claimLock(queue), relaxed, scanLogClaim, s.slotSQL(claimLogSQL, seg.slot),
		queue, millis(params.VisibilityTimeout), params.Max, params.MaxBytes, nonce,
		params.Consumer.Instance, params.Consumer.Version)
	if err != nil || len(rows) == 0 {
		return claimResult{}, err
	}
	result := claimResult{others: rows[0].others, currentNo: rows[0].currentNo}
	if rows[0].id == nil {
		return result, nil
	}
	result.messages = make([]message.Message, len(rows))
	token := leaseToken(*rows[0].id, nonce)
	for i, row := range rows {
		if result.messages[i], err = row.message(queue, token, params.Consumer); err != nil {
			return claimResult{}, err
		}
	}
	return result, nil
}

func scanLogClaim(row pgx.CollectableRow) (r logClaimRow, err error) {
	err = row.Scan(&r.others, &r.currentNo, &r.now, &r.expires, &r.id, &r.createdAt, &r.maxRetries, &r.headers, &r.payload)
	return r, err //nolint:wrapcheck // wrapped by the operation
}

func (r *logClaimRow) message(queue, token string, consumer message.Consumer) (message.Message, error) {
	headers, err := decodeHeaders(r.headers)
	return message.Message{
		ID: *r.id, Queue: queue, Payload: r.payload, PayloadSize: len(r.payload), Headers: headers,
		Status: message.Processing, MaxRetries: *r.maxRetries, DeliveryCount: 1,
		Lease:     &message.Lease{Token: token, ExpiresAt: r.expires.UTC(), Consumer: consumer},
		CreatedAt: r.createdAt.UTC(), UpdatedAt: r.now.UTC(),
	}, err
}

// claimBothSQL claims from the log and from the table message, first ready first. SKIP LOCKED passes over what another
// statement has in hand; MATERIALIZED keeps the LIMIT from being run more than once.
const claimBothSQL = claimSourceSQL + `, other AS MATERIALIZED (
    SELECT id, ready_at, octet_length(payload) AS size FROM {schema}.message
    WHERE queue_id = (SELECT id FROM q) AND status = 'pending' AND ready_at <= (SELECT now FROM q)
    ORDER BY ready_at, id LIMIT $3
    FOR UPDATE SKIP LOCKED
), logged AS MATERIALIZED (
    SELECT l.id, l.created_at AS ready_at, octet_length(l.payload) AS size FROM {log} l
    WHERE l.queue_id = (SELECT id FROM q) AND l.id > (SELECT id FROM reached)
    ORDER BY l.id LIMIT $3
), fitting AS MATERIALIZED (
    SELECT * FROM (
        SELECT r.*, row_number() OVER earlier AS place, sum(size) OVER earlier - size AS before
        FROM (SELECT *, false AS logged FROM other UNION ALL SELECT *, true FROM logged) r
        WINDOW earlier AS (ORDER BY ready_at, id ROWS UNBOUNDED PRECEDING)
    ) r WHERE place <= $3 AND before < $4
), made AS MATERIALIZED (
    SELECT min(id) AS first, max(id) AS last, count(*) AS n FROM fitting WHERE logged HAVING count(*) > 0
), claim AS (
    INSERT INTO {claim} (queue_id, first, last, n, nonce, claimed_at, expires_at, instance, version)
    SELECT q.id, made.first, made.last, made.n, $5, q.now, q.now + q.visibility, $6, $7 FROM q, made
), counted AS (
    INSERT INTO {delta} SELECT q.id, -made.n, made.n, 0, 0 FROM q, made
), held AS (
    UPDATE {schema}.message m
    SET status = 'processing', delivery_count = m.delivery_count + 1, attempt_count = m.attempt_count + 1,
        delayed = false, lease_token = gen_random_uuid(), lease_expires_at = q.now + q.visibility,
        claimed_at = q.now, claimed_by = $6, claimed_version = $7, updated_at = q.now
    FROM q, fitting f WHERE m.id = f.id AND NOT f.logged
    RETURNING ` + messageColumns + `, f.place
)
SELECT h.*, q.current_no FROM held h, q
UNION ALL
SELECT l.id, l.payload, octet_length(l.payload), l.headers, 'processing', 0, l.max_retries, 1, 0, 1, l.created_at, false,
    {token}, q.now + q.visibility, q.now, $6, $7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    l.created_at, q.now, f.place, q.current_no
FROM q, fitting f, {log} l WHERE f.logged AND l.queue_id = q.id AND l.id = f.id`

// claimFromBoth claims from the log and the table message.
func (s *Store) claimFromBoth(ctx context.Context, queue string, seg segment, params ClaimParams) (claimResult, error) {
	type placed struct {
		messageRow
		place, currentNo int64
	}
	rows, err := lockedRows(ctx, s, claimLock(queue), relaxed, func(row pgx.CollectableRow) (p placed, err error) {
		p.messageRow, err = scanMessage(row, queue, &p.place, &p.currentNo)
		return p, err
	}, s.slotSQL(claimBothTokenSQL, seg.slot),
		queue, millis(params.VisibilityTimeout), params.Max, params.MaxBytes, s.nonce(),
		params.Consumer.Instance, params.Consumer.Version)
	if err != nil || len(rows) == 0 {
		return claimResult{currentNo: seg.no}, err // Someone else was faster.
	}
	slices.SortFunc(rows, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	result := claimResult{currentNo: rows[0].currentNo, messages: make([]message.Message, len(rows))}
	for i, row := range rows {
		result.messages[i] = row.Message
	}
	return result, nil
}

// claimLock orders the claims of a queue.
func claimLock(queue string) string { return "claim:" + queue }

// A lease token of the log names its claim, by the first id of the claim, and carries the claim's nonce, so that it is
// found by one index probe and cannot be made up.
func leaseToken(first, nonce int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(first)) //nolint:gosec // ids are positive
	binary.BigEndian.PutUint64(b[8:], uint64(nonce)) //nolint:gosec // every bit pattern is a nonce
	return formatUUID(b)
}

// tokenSQL is leaseToken of a claim with first and nonce in SQL.
func tokenSQL(first, nonce string) string {
	return "encode(int8send(" + first + ") || int8send(" + nonce + "), 'hex')::uuid::text"
}

var claimBothTokenSQL = expand(claimBothSQL, map[string]string{"token": tokenSQL("(SELECT first FROM made)", "$5")})

// parseToken returns the claim that a token names. A token of another kind names none.
func parseToken(token string) (first, nonce int64) {
	var b [16]byte
	if len(token) != 36 {
		return 0, 0
	}
	text := token[:8] + token[9:13] + token[14:18] + token[19:23] + token[24:]
	if n, err := hex.Decode(b[:], []byte(text)); err != nil || n != len(b) {
		return 0, 0
	}
	return int64(binary.BigEndian.Uint64(b[:8])), int64(binary.BigEndian.Uint64(b[8:])) //nolint:gosec // as written
}

func formatUUID(b [16]byte) string {
	var text [36]byte
	hex.Encode(text[:8], b[:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:], b[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
