package storetest

import (
	"fmt"
	"strings"
)

// slots is how many sets of tables the log has.
const slots = 8

// ElapseSQL are statements that move everything stored in a schema into the past, by the interval in parameter $1.
func ElapseSQL(schema string) []string {
	statements := []string{
		`UPDATE {schema}.queue SET breaker_changed_at = breaker_changed_at - $1::interval,
		breaker_open_until = breaker_open_until - $1::interval`,
		`UPDATE {schema}.breaker_sample SET at = at - $1::interval`,
		`UPDATE {schema}.message SET ready_at = ready_at - $1::interval,
		lease_expires_at = lease_expires_at - $1::interval, dead_at = dead_at - $1::interval,
		succeeded_at = succeeded_at - $1::interval, expires_at = expires_at - $1::interval`,
	}
	for slot := range slots {
		statements = append(statements,
			fmt.Sprintf(`UPDATE {schema}.log_%d SET created_at = created_at - $1::interval,
				expires_at = expires_at - $1::interval`, slot),
			fmt.Sprintf(`UPDATE {schema}.claim_%d SET expires_at = expires_at - $1::interval`, slot),
			fmt.Sprintf(`UPDATE {schema}.closed_%d SET closed_at = closed_at - $1::interval`, slot))
	}
	return in(schema, statements)
}

// ExpireLeaseSQL are statements that end the lease of the message in parameter $1 a second ago.
func ExpireLeaseSQL(schema string) []string {
	statements := []string{`UPDATE {schema}.message SET lease_expires_at = now() - interval '1 second'
		WHERE id = $1 AND lease_expires_at IS NOT NULL`}
	for slot := range slots {
		statements = append(statements, fmt.Sprintf(
			`UPDATE {schema}.claim_%d SET expires_at = now() - interval '1 second' WHERE $1 BETWEEN first AND last`, slot))
	}
	return in(schema, statements)
}

// ResetSQL are statements that remove all queues and messages.
func ResetSQL(schema string) []string {
	statements := []string{
		`DELETE FROM {schema}.message`, `DELETE FROM {schema}.enqueue_key`, `DELETE FROM {schema}.queue`,
	}
	for slot := range slots {
		for _, table := range []string{"log", "claim", "closed"} {
			statements = append(statements, fmt.Sprintf(`DELETE FROM {schema}.%s_%d`, table, slot))
		}
	}
	return in(schema, statements)
}

// MessagesSQL is a query for queue_id, id and status of every message, read row by row without any of the engine's
// shortcuts.
func MessagesSQL(schema string) string {
	parts := []string{`SELECT queue_id, id, status FROM {schema}.message`}
	for slot := range slots {
		parts = append(parts, fmt.Sprintf(`SELECT l.queue_id, l.id, CASE
			WHEN x.id IS NOT NULL THEN 'succeeded'
			WHEN EXISTS (SELECT FROM {schema}.claim_%[1]d c WHERE c.queue_id = l.queue_id AND l.id BETWEEN c.first AND c.last)
			THEN 'processing' ELSE 'pending' END
			FROM {schema}.log_%[1]d l
			LEFT JOIN {schema}.closed_%[1]d x ON x.queue_id = l.queue_id AND x.id = l.id
			WHERE x.moved IS NOT TRUE`, slot))
	}
	return in(schema, []string{strings.Join(parts, " UNION ALL ")})[0]
}

// BrokenGroupsSQL counts the groups of which not exactly one unfinished message may be handed out.
func BrokenGroupsSQL(schema string) string {
	return in(schema, []string{`SELECT count(*) FROM (
		SELECT FROM {schema}.message WHERE group_key IS NOT NULL AND status IN ('pending', 'processing')
		GROUP BY queue_id, group_key HAVING count(*) FILTER (WHERE NOT blocked) <> 1) broken`})[0]
}

func in(schema string, statements []string) []string {
	for i, statement := range statements {
		statements[i] = strings.ReplaceAll(statement, "{schema}", schema)
	}
	return statements
}
