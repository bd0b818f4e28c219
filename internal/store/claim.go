package store

import (
	"cmp"
	"context"
	"crypto/rand"
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

// Claim implements Engine. Claims of one queue at one time go together.
func (s *Store) Claim(ctx context.Context, queue string, params ClaimParams) ([]message.Message, error) {
	params.Consumer = message.NewConsumer(params.Consumer)
	params.MaxBytes = cmp.Or(params.MaxBytes, defaultClaimBytes)
	claimed, err := s.claims.Do(ctx, queue, params)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return claimed, nil
}

// claimAll answers claims in the order in which they came.
func (s *Store) claimAll(ctx context.Context, queue string, calls []ClaimParams) ([][]message.Message, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	answers, err := s.claimThrough(ctx, queue, calls, false)
	if err == nil && s.breakers.has(queue) && !anyClaimed(answers) {
		return s.claimProbes(ctx, queue, calls)
	}
	return answers, err
}

func anyClaimed(answers [][]message.Message) bool {
	return slices.ContainsFunc(answers, func(answer []message.Message) bool { return len(answer) > 0 })
}

// claimThrough claims for a queue whose circuit breaker is closed, or with probe for any, from the log, or from the log
// and the table message together when the latter has something ready. It goes on to the next segment while the one that
// the queue has reached holds nothing more, and claims again for those that got nothing because others had all the
// bytes that go at once.
func (s *Store) claimThrough(ctx context.Context, queue string, calls []ClaimParams, probe bool,
) ([][]message.Message, error) {
	answers := make([][]message.Message, len(calls))
	live, err := s.liveSegments(ctx, s.pool)
	for open := newClaimants(calls, answers, false, probe); err == nil && len(open.places) > 0; {
		var result claimResult
		seg := s.log.reached(queue, live)
		if result, err = s.claimFrom(ctx, queue, seg, open); err != nil {
			break
		}
		switch {
		case result.stale:
			live, err = s.reloadSegments(ctx, s.pool)
		case result.expired:
			if _, err = s.killExpired(ctx, queue, seg); err == nil {
				open = newClaimants(calls, answers, false, probe)
			}
		case result.cut:
			open = newClaimants(calls, answers, false, probe)
		case result.got == len(open.requests) || result.currentNo == 0 || result.currentNo == seg.no:
			return answers, nil
		default:
			if live.current().no != result.currentNo {
				live, err = s.reloadSegments(ctx, s.pool)
			}
			if rest := live.from(seg.no + 1); len(rest) > 0 {
				s.log.advance(queue, rest[0].no)
			}
			open = newClaimants(calls, answers, true, probe)
		}
	}
	if err != nil && !anyClaimed(answers) {
		return nil, err
	}
	return answers, nil // What was claimed is the answer; an error will meet the next claim.
}

// claimFrom claims from one segment. What is ready elsewhere is held against the next message of the log, whichever
// segment that is in: if others have taken the rest of an older segment meanwhile, it looks again.
func (s *Store) claimFrom(ctx context.Context, queue string, seg segment, open *claimants) (claimResult, error) {
	for {
		result, err := s.claimFromLog(ctx, queue, seg, open)
		if err != nil || result.stale || !result.others || (result.exhausted && result.currentNo != seg.no) {
			return result, err
		}
		newest := result.currentNo
		result, err = s.claimFromBoth(ctx, queue, seg, open)
		if err != nil || result.got > 0 || result.expired || newest == seg.no {
			return result, err
		}
	}
}

// claimants are claims that may get more. They share what is claimed: the n-th message goes to the call at requests[n].
type claimants struct {
	answers [][]message.Message
	calls   []ClaimParams
	// places are where the claimants are among the calls.
	places []int
	// requests says for each message that may be claimed whose it is, by position in places, from 1.
	requests []int32
	// bytes is how much goes at once.
	bytes               int
	nonces, visibility  []int64
	instances, versions []string
	// probe says that the queue's circuit breaker may be half open.
	probe bool
}

// newClaimants are the calls that got nothing so far, or less than they asked for.
func newClaimants(calls []ClaimParams, answers [][]message.Message, less, probe bool) *claimants {
	c := &claimants{answers: answers, calls: calls, probe: probe}
	for place := range calls {
		call, got := &calls[place], len(answers[place])
		if got == call.Max || (got > 0 && !less) {
			continue
		}
		c.places = append(c.places, place)
		for range call.Max - got {
			c.requests = append(c.requests, int32(len(c.places))) //nolint:gosec // at most the calls of a flush
		}
		if c.bytes == 0 || call.MaxBytes < c.bytes {
			c.bytes = call.MaxBytes
		}
		c.nonces, c.visibility = append(c.nonces, randomNonce()), append(c.visibility, millis(call.VisibilityTimeout))
		c.instances = append(c.instances, call.Consumer.Instance)
		c.versions = append(c.versions, call.Consumer.Version)
	}
	return c
}

// args are the parameters of both statements.
func (c *claimants) args(queue string, seg segment) []any {
	return []any{
		queue, c.requests, len(c.requests), c.bytes, c.nonces, c.visibility, c.instances, c.versions, seg.no, c.probe,
	}
}

// give hands a message to the claimant whose it is, and returns its claim.
func (c *claimants) give(request int, m message.Message) {
	place := c.places[request-1]
	if c.answers[place] == nil {
		c.answers[place] = make([]message.Message, 0, min(c.calls[place].Max, len(c.requests)))
	}
	c.answers[place] = append(c.answers[place], m)
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
	// others says that nothing was claimed because the table message has something ready, too.
	others bool
	// stale says that the segment is gone and nothing was claimed.
	stale bool
	// exhausted says that others is set and the segment has nothing left.
	exhausted bool
	// expired says that the claim ends before messages whose time to live has passed, which are in the way.
	expired bool
	// got is how many messages were claimed; cut says that there are more than go at once.
	got int
	cut bool
	// currentNo is the number of the newest segment; 0 when the queue is not there or paused.
	currentNo int64
}

// claimSourceSQL begins both claims: the queue, and where its cursor in the segment is. The cursor is the end of the
// last claim, found by one descent of an index, however many claims there were.
var claimSourceSQL = `
WITH q AS MATERIALIZED (
    SELECT q.id, q.visibility_timeout_ms, clock_timestamp() AS now,
        (SELECT max(no) FROM {schema}.segment) AS current_no,
        EXISTS (SELECT FROM {schema}.segment WHERE no = $9) AS live,
        ` + anyReadySQL("q.id") + ` AS others
    FROM {schema}.queue q WHERE q.name = $1 AND q.state = 'Active' AND (q.breaker = 'Closed' OR $10)
), reached AS MATERIALIZED (
    SELECT coalesce((SELECT last FROM {claim} WHERE queue_id = q.id ORDER BY first DESC LIMIT 1), 0) AS id FROM q
)`

// expiredSoFarSQL tells of messages of the log, in a window "earlier" that goes by id, whether one of them so far has
// expired. A claim is a range of ids, so it ends before that; see killExpired.
const expiredSoFarSQL = `coalesce(bool_or(expires_at <= (SELECT now FROM q)) OVER earlier, false)`

// claimExpirySQL is when the lease of request f.request ends.
const claimExpirySQL = `q.now + coalesce(nullif(($6::bigint[])[f.request], 0), q.visibility_timeout_ms)
    * interval '1 millisecond'`

var claimLogSQL = claimSourceSQL + `, ready AS MATERIALIZED (
    SELECT l.id, l.created_at, l.max_retries, l.headers, l.payload, l.expires_at FROM {log} l
    WHERE l.queue_id = (SELECT id FROM q WHERE live AND NOT others) AND l.id > (SELECT id FROM reached)
    ORDER BY l.id LIMIT $3
), fitting AS MATERIALIZED (
    SELECT r.*, ($2::int[])[place] AS request FROM (
        SELECT *, row_number() OVER earlier AS place,
            sum(octet_length(payload)) OVER earlier - octet_length(payload) AS before,
            ` + expiredSoFarSQL + ` AS expired
        FROM ready WINDOW earlier AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
    ) r WHERE before < $4 AND NOT expired
), made AS (
    INSERT INTO {claim} (queue_id, first, last, n, nonce, claimed_at, expires_at, instance, version)
    SELECT q.id, min(f.id), max(f.id), count(*), ($5::bigint[])[f.request], q.now, ` + claimExpirySQL + `,
        ($7::text[])[f.request], ($8::text[])[f.request]
    FROM q, fitting f GROUP BY f.request, q.id, q.now, q.visibility_timeout_ms
), counted AS (
    INSERT INTO {delta} SELECT q.id, -count(*), count(*), 0, 0 FROM q, fitting GROUP BY q.id
)
SELECT q.others, q.current_no, q.now, q.visibility_timeout_ms, f.request, f.id, f.created_at, f.max_retries, f.headers,
    f.payload, (SELECT count(*) FROM ready), q.others AND NOT EXISTS (
        SELECT FROM {log} l WHERE l.queue_id = q.id AND l.id > (SELECT id FROM reached)
    ), NOT q.live, f.expires_at, EXISTS (SELECT FROM ready r WHERE r.expires_at <= (SELECT now FROM q))
FROM q LEFT JOIN fitting f ON true ORDER BY f.place`

// logClaimRow is one message of a claim, or none.
type logClaimRow struct {
	others     bool
	currentNo  int64
	now        time.Time
	visibility int64
	request    *int
	id         int64
	createdAt  time.Time
	maxRetries int
	headers    []byte
	payload    []byte
	ready      int
	exhausted  bool
	stale      bool
	expiresAt  *time.Time
	expired    bool
}

func (r *logClaimRow) scan(rows pgx.CollectableRow) error {
	var (
		id         *int64
		createdAt  *time.Time
		maxRetries *int
	)
	err := rows.Scan(&r.others, &r.currentNo, &r.now, &r.visibility, &r.request, &id, &createdAt, &maxRetries,
		&r.headers, &r.payload, &r.ready, &r.exhausted, &r.stale, &r.expiresAt, &r.expired)
	if err == nil && id != nil {
		r.id, r.createdAt, r.maxRetries = *id, *createdAt, *maxRetries
	}
	return err //nolint:wrapcheck // wrapped by the operation
}

// claimFromLog claims from the log alone, in one round trip.
func (s *Store) claimFromLog(ctx context.Context, queue string, seg segment, open *claimants) (claimResult, error) {
	rows, err := relaxedRows(ctx, s, claimLock(queue), func(row pgx.CollectableRow) (r logClaimRow, err error) {
		return r, r.scan(row)
	}, s.slotSQL(claimLogSQL, seg.slot), open.args(queue, seg)...)
	if err != nil || len(rows) == 0 {
		return claimResult{}, err
	}
	result := claimResult{
		stale: rows[0].stale, others: rows[0].others, exhausted: rows[0].exhausted, expired: rows[0].expired,
		cut: len(rows) < rows[0].ready, currentNo: rows[0].currentNo,
	}
	var (
		token   string
		request int
	)
	for i := range rows {
		row := &rows[i]
		if row.request == nil {
			break
		}
		if *row.request != request {
			request = *row.request
			token = leaseToken(row.id, open.nonces[request-1])
		}
		call := &open.calls[open.places[request-1]]
		headers, err := decodeHeaders(row.headers)
		if err != nil {
			return result, err
		}
		held := cmp.Or(call.VisibilityTimeout, duration(row.visibility))
		now := row.now.UTC()
		result.got++
		open.give(request, message.Message{
			ID: row.id, Queue: queue, Payload: row.payload, PayloadSize: len(row.payload), Headers: headers,
			Status: message.Processing, MaxRetries: row.maxRetries, DeliveryCount: 1,
			Lease:     &message.Lease{Token: token, ExpiresAt: now.Add(held), Consumer: call.Consumer},
			CreatedAt: row.createdAt.UTC(), UpdatedAt: now, ExpiresAt: utc(row.expiresAt),
		})
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

// randomNonce returns 64 random bits.
func randomNonce() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])                      // It never fails.
	return int64(binary.BigEndian.Uint64(b[:])) //nolint:gosec // every bit pattern is a nonce
}

// parseToken returns the claim that a token names. A token of another kind names none.
func parseToken(token string) (first, nonce int64) {
	var b [16]byte
	if len(token) != 36 {
		return 0, 0
	}
	text := token[:8] + token[9:13] + token[14:18] + token[19:23] + token[24:]
	if n, err := hex.Decode(b[:], []byte(text)); err != nil || n != len(b) || formatUUID(b) != token {
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
