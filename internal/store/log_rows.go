package store

import (
	"strings"
)

// A message of the log has no status of its own. It is pending until a claim covers it, then processing until it is
// closed; a closed one has succeeded, unless it was moved to the table message, where its row goes on.
const (
	// logFromSQL joins a message l of the log with the claim c that covers it and its closing x.
	logFromSQL = ` FROM {log} l
LEFT JOIN LATERAL (SELECT * FROM {closed} k WHERE k.queue_id = l.queue_id AND k.id = l.id OFFSET 0) x ON true
LEFT JOIN LATERAL (
    SELECT * FROM {claim} k WHERE k.queue_id = l.queue_id AND k.first <= l.id ORDER BY k.first DESC LIMIT 1
) c ON c.last >= l.id`

	// leasedSQL is the state of being leased, of l, c and x as in logFromSQL.
	leasedSQL = `(c.first IS NOT NULL AND x.id IS NULL)`
)

var (
	// logTokenSQL is the lease token of l.
	logTokenSQL = tokenSQL("c.first", "c.nonce")

	// logColumns are messageColumns of a message of the log, of l, c and x as in logFromSQL.
	logColumns        = logColumnsOf("l.payload")
	logPreviewColumns = logColumnsOf(previewSQL("l.payload"))
)

// noFailureSQL are the columns of a failure that has not happened: six texts and two times.
var noFailureSQL = strings.Repeat("NULL::text, ", 6) + "NULL::timestamptz, " + "NULL::timestamptz"

func logColumnsOf(payload string) string {
	return `l.id, ` + payload + `, octet_length(l.payload), l.headers,
	CASE WHEN x.id IS NOT NULL THEN 'succeeded' WHEN c.first IS NOT NULL THEN 'processing' ELSE 'pending' END,
	0, l.max_retries, num_nonnulls(c.first), 0, num_nonnulls(c.last), l.created_at, false,
	CASE WHEN ` + leasedSQL + ` THEN ` + logTokenSQL + ` END, CASE WHEN ` + leasedSQL + ` THEN c.expires_at END,
	c.claimed_at, c.instance, c.version, ` + noFailureSQL + `, NULL::timestamptz, l.created_at,
	coalesce(x.closed_at, c.claimed_at, l.created_at), 0::smallint, NULL::text, l.expires_at`
}
