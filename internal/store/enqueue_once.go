package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

const (
	knownKeysSQL = `
SELECT key, digest, message_ids FROM {schema}.enqueue_key
WHERE queue_id = ` + queueIDSQL + ` AND key = ANY ($2) AND accepted_at > now() - $3::bigint * interval '1 millisecond'`

	// A key whose time is over is taken anew. accepted_at is the transaction's time, as everywhere.
	rememberKeysSQL = `
INSERT INTO {schema}.enqueue_key AS k (queue_id, key, digest, message_ids, accepted_at)
SELECT ` + queueIDSQL + `, n.key, n.digest, ARRAY(
    SELECT i.id FROM unnest($4::bigint[], $5::int[]) WITH ORDINALITY AS i (id, request, place)
    WHERE i.request = n.request ORDER BY i.place), now()
FROM unnest($2::text[], $3::bytea[], $6::int[]) AS n (key, digest, request)
ON CONFLICT (queue_id, key) DO UPDATE SET
    digest = excluded.digest, message_ids = excluded.message_ids, accepted_at = excluded.accepted_at`

	forgetKeysSQL = `
DELETE FROM {schema}.enqueue_key WHERE (queue_id, key) IN (
    SELECT queue_id, key FROM {schema}.enqueue_key
    WHERE accepted_at <= now() - $1::bigint * interval '1 millisecond' ORDER BY accepted_at LIMIT $2
)`
)

// knownKey is what was accepted under a key.
type knownKey struct {
	key        string
	digest     []byte
	messageIDs []int64
}

func scanKnownKey(row pgx.CollectableRow) (k knownKey, err error) {
	err = row.Scan(&k.key, &k.digest, &k.messageIDs)
	return k, err //nolint:wrapcheck // wrapped by the operation
}

// EnqueueOnce implements Engine. Producers with one key take turns under the queue's lock, so that exactly one of them
// is the first.
func (s *Store) EnqueueOnce(ctx context.Context, queue string, requests []KeyedMessages) ([]Accepted, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	o := onceEnqueue{Store: s, queue: queue, requests: requests, answers: make([]Accepted, len(requests))}
	err := s.inTx(ctx, o.run)
	if err == nil {
		err = o.recall(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue once: %w", err)
	}
	return o.answers, nil
}

// onceEnqueue is one call of EnqueueOnce.
type onceEnqueue struct {
	*Store

	queue    string
	requests []KeyedMessages
	answers  []Accepted
	// before are the ids that were accepted before, by position of the request.
	before map[int][]int64
}

func (o *onceEnqueue) run(ctx context.Context, tx pgx.Tx) error {
	// In the order of every enqueue: the segment's lock first.
	if _, err := tx.Exec(ctx, enqueueLockSQL, o.enqueueKeys(o.queue)...); err != nil {
		return err //nolint:wrapcheck // wrapped by the operation
	}
	fresh, digests, err := o.sort(ctx, tx)
	if err != nil || len(fresh) == 0 {
		return err
	}
	var all []NewMessage
	for _, i := range fresh {
		all = append(all, o.requests[i].Messages...)
	}
	columns, err := newMessageColumns(all)
	if err != nil {
		return err
	}
	stored, err := o.insertOrBury(ctx, tx, o.queue, columns)
	if err != nil {
		return err
	}
	for _, i := range fresh {
		n := len(o.requests[i].Messages)
		o.answers[i].Messages, stored = stored[:n:n], stored[n:]
	}
	return o.remember(ctx, tx, fresh, digests)
}

// sort tells the requests that are to be accepted from those that were, and returns the positions of the former and the
// digests of all. A key that comes twice in one call counts as known the second time.
func (o *onceEnqueue) sort(ctx context.Context, tx pgx.Tx) (fresh []int, digests map[int][]byte, err error) {
	var keys []string
	for _, request := range o.requests {
		if request.Key != "" {
			keys = append(keys, request.Key)
		}
	}
	rows, err := collect(ctx, tx, scanKnownKey, o.sql(knownKeysSQL), o.queue, keys, millis(KeyWindow))
	if err != nil {
		return nil, nil, err
	}
	known := make(map[string]knownKey, len(rows))
	for _, row := range rows {
		known[row.key] = row
	}
	digests, o.before = map[int][]byte{}, map[int][]int64{}
	for i, request := range o.requests {
		if request.Key == "" {
			fresh = append(fresh, i)
			continue
		}
		digests[i] = digest(request.Messages)
		have, found := known[request.Key]
		switch {
		case !found:
			fresh = append(fresh, i)
			known[request.Key] = knownKey{key: request.Key, digest: digests[i]}
		case !bytes.Equal(have.digest, digests[i]), have.messageIDs == nil:
			return nil, nil, &KeyReusedError{Request: i}
		default:
			o.before[i] = have.messageIDs
		}
	}
	return fresh, digests, nil
}

func (o *onceEnqueue) remember(ctx context.Context, tx pgx.Tx, fresh []int, digests map[int][]byte) error {
	var (
		keys            []string
		sums            [][]byte
		numbers, owners []int32
		ids             []int64
	)
	for _, i := range fresh {
		if o.requests[i].Key == "" {
			continue
		}
		keys, sums = append(keys, o.requests[i].Key), append(sums, digests[i])
		numbers = append(numbers, int32(i)) //nolint:gosec // at most a batch
		for _, m := range o.answers[i].Messages {
			ids, owners = append(ids, m.ID), append(owners, int32(i)) //nolint:gosec // as above
		}
	}
	_, err := tx.Exec(ctx, o.sql(rememberKeysSQL), o.queue, keys, sums, ids, owners, numbers)
	return err //nolint:wrapcheck // wrapped by the operation
}

// recall reads what was accepted before.
func (o *onceEnqueue) recall(ctx context.Context) error {
	for i, ids := range o.before {
		o.answers[i].Before = true
		for _, id := range ids {
			m, err := o.Get(ctx, o.queue, id)
			if errors.Is(err, ErrNotFound) {
				return ErrNoLongerKept
			}
			if err != nil {
				return err
			}
			o.answers[i].Messages = append(o.answers[i].Messages, m)
		}
	}
	return nil
}

// traceHeaders differ each time that somebody sends the same message again.
var traceHeaders = []string{"traceparent", "tracestate"}

// digest is a hash of messages as they were asked for.
func digest(messages []NewMessage) []byte {
	sum := sha256.New()
	for _, m := range messages {
		writeNumber(sum, len(m.Payload))
		_, _ = sum.Write(m.Payload)
		headers := slices.DeleteFunc(slices.Clone(m.Headers), func(h message.Header) bool {
			return slices.Contains(traceHeaders, h.Name)
		})
		writeNumber(sum, len(headers))
		for _, h := range headers {
			for _, text := range []string{h.Name, h.Value} {
				writeNumber(sum, len(text))
				_, _ = sum.Write([]byte(text))
			}
		}
		writeNumber(sum, m.MaxRetries)
		writeNumber(sum, int(millis(m.Delay)))
		if m.Priority != 0 || m.GroupKey != "" || m.TTL != 0 {
			writeNumber(sum, m.Priority)
			writeNumber(sum, len(m.GroupKey))
			_, _ = sum.Write([]byte(m.GroupKey))
			writeNumber(sum, int(millis(m.TTL)))
		}
	}
	return sum.Sum(nil)
}

func writeNumber(sum hash.Hash, n int) {
	_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) //nolint:gosec // lengths and small numbers
}
