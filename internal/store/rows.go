package store

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// messageColumns is what scanMessage reads, of a message m.
const messageColumns = `m.id, m.payload, octet_length(m.payload), m.headers, m.status, m.retry_count,
	m.max_retries, m.delivery_count,
	m.replay_count, m.attempt_count, m.ready_at, m.delayed, m.lease_token::text, m.lease_expires_at, m.claimed_at,
	m.claimed_by, m.claimed_version, m.failure_reason, m.failure_category, m.fingerprint, m.error_class, m.failed_by,
	m.failed_version, m.first_failure_at, m.last_failure_at, m.dead_at, m.created_at, m.updated_at,
	m.priority, m.group_key, m.expires_at`

// PreviewBytes is how much of a payload a list returns, so that a page of the largest messages stays small.
const PreviewBytes = 64 << 10

// previewColumns is messageColumns with the payload cut to PreviewBytes.
var previewColumns = strings.Replace(messageColumns, "m.payload,", previewSQL("m.payload")+",", 1)

func previewSQL(payload string) string {
	return "substring(" + payload + " from 1 for " + strconv.Itoa(PreviewBytes) + ")"
}

// messageRow is a message with what only the store needs of it.
type messageRow struct {
	message.Message
	attemptCount int
	readyAt      time.Time
	claimedAt    *time.Time
}

// failureColumns are the nullable columns of a failure.
type failureColumns struct {
	reason, category, fingerprint, class, instance, version *string
	at                                                      *time.Time
}

func (c failureColumns) failure() *message.Failure {
	if c.category == nil {
		return nil
	}
	failure := &message.Failure{
		Reason: text(c.reason), Category: message.Category(*c.category), Fingerprint: text(c.fingerprint),
		ErrorClass: text(c.class), Consumer: message.Consumer{Instance: text(c.instance), Version: text(c.version)},
	}
	if c.at != nil {
		failure.At = c.at.UTC()
	}
	return failure
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// scanMessage reads messageColumns, and any further columns into more.
func scanMessage(row pgx.CollectableRow, queue string, more ...any) (messageRow, error) {
	m := messageRow{Message: message.Message{Queue: queue}}
	var (
		headers            []byte
		delayed            bool
		token              *string
		expires            *time.Time
		claimedBy, version *string
		failed             failureColumns
		groupKey           *string
		deadline           *time.Time
	)
	err := row.Scan(append([]any{
		&m.ID, &m.Payload, &m.PayloadSize, &headers, &m.Status, &m.RetryCount, &m.MaxRetries, &m.DeliveryCount,
		&m.ReplayCount, &m.attemptCount, &m.readyAt, &delayed, &token, &expires, &m.claimedAt,
		&claimedBy, &version, &failed.reason, &failed.category, &failed.fingerprint, &failed.class, &failed.instance,
		&failed.version, &m.FirstFailureAt, &failed.at, &m.DeadAt, &m.CreatedAt, &m.UpdatedAt,
		&m.Priority, &groupKey, &deadline,
	}, more...)...)
	if err != nil {
		return m, err //nolint:wrapcheck // wrapped by the operation
	}
	if m.Headers, err = decodeHeaders(headers); err != nil {
		return m, err
	}
	if m.Status == message.Pending && delayed {
		m.RetryAfter = utc(&m.readyAt)
	}
	if token != nil && expires != nil {
		m.Lease = &message.Lease{
			Token: *token, ExpiresAt: expires.UTC(),
			Consumer: message.Consumer{Instance: text(claimedBy), Version: text(version)},
		}
	}
	if m.Status == message.Pending || m.Status == message.Processing {
		m.ExpiresAt = utc(deadline)
	}
	m.GroupKey = text(groupKey)
	m.LastFailure = failed.failure()
	m.FirstFailureAt, m.DeadAt = utc(m.FirstFailureAt), utc(m.DeadAt)
	m.CreatedAt, m.UpdatedAt = m.CreatedAt.UTC(), m.UpdatedAt.UTC()
	return m, nil
}

// messageOf is a row scanner for messages of one queue.
func messageOf(queue string) func(pgx.CollectableRow) (messageRow, error) {
	return func(row pgx.CollectableRow) (messageRow, error) { return scanMessage(row, queue) }
}

func plain(rows []messageRow) []message.Message {
	messages := make([]message.Message, len(rows))
	for i, row := range rows {
		messages[i] = row.Message
	}
	return messages
}

// Headers are stored as [["name","value"],…].
func encodeHeaders(headers []message.Header) (string, error) {
	pairs := make([][2]string, len(headers))
	for i, h := range headers {
		pairs[i] = [2]string{h.Name, h.Value}
	}
	encoded, err := json.Marshal(pairs)
	if err != nil {
		return "", fmt.Errorf("encode headers: %w", err)
	}
	return string(encoded), nil
}

func decodeHeaders(encoded []byte) ([]message.Header, error) {
	if string(encoded) == "[]" {
		return nil, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal(encoded, &pairs); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	headers := make([]message.Header, len(pairs))
	for i, pair := range pairs {
		headers[i] = message.Header{Name: pair[0], Value: pair[1]}
	}
	return headers, nil
}

func millisText(d time.Duration) string { return strconv.FormatInt(millis(d), 10) }

func millis(d time.Duration) int64 { return d.Milliseconds() }

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
