package store

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"deadletter.dev/deadletter/internal/message"
)

// settingsColumns are the columns of a queue's settings, in the order of settingsArgs and settingsScan; declaredColumns
// are those of a declaration.
var (
	settingsColumns = []string{
		"max_retries", "backoff_initial_ms", "backoff_factor_percent", "backoff_max_ms", "backoff_jitter_percent",
		"visibility_timeout_ms", "max_deliveries", "state", "succeeded_retention_ms", "dead_retention_ms",
		"on_dead_expiry", "message_ttl_ms", "max_length", "overflow", "breaker_window_ms", "breaker_failure_percent",
		"breaker_min_sample", "breaker_open_ms", "breaker_probes",
	}
	declaredColumns = slices.Concat(settingsColumns, []string{"owner_namespace", "owner_name"})
)

// columnsOf lists columns of a row.
func columnsOf(row string, columns []string) string {
	return row + "." + strings.Join(columns, ", "+row+".")
}

// parametersFor lists parameters for a queue's name and columns.
func parametersFor(columns []string) string {
	list := make([]string, len(columns)+1)
	for i := range list {
		list[i] = "$" + strconv.Itoa(i+1)
	}
	return strings.Join(list, ", ")
}

// queueColumns are the settings of a queue q.
var queueColumns = columnsOf("q", settingsColumns)

var createQueueSQL = `
INSERT INTO {schema}.queue (name, ` + strings.Join(settingsColumns, ", ") + `)
VALUES (` + parametersFor(settingsColumns) + `) ON CONFLICT (name) DO NOTHING`

// declareQueueSQL writes the row only when something differs, so that declaring twice writes nothing. Messages keep the
// time to live that they came with, whatever becomes of the queue's.
var declareQueueSQL = `
INSERT INTO {schema}.queue AS q (name, ` + strings.Join(declaredColumns, ", ") + `)
VALUES (` + parametersFor(declaredColumns) + `)
ON CONFLICT (name) DO UPDATE SET
    (` + strings.Join(declaredColumns, ", ") + `) = (` + columnsOf("excluded", declaredColumns) + `),
    updated_at = now(), closed_until = NULL,
    breaker = CASE WHEN excluded.breaker_window_ms = 0 THEN 'Closed' ELSE q.breaker END,
    breaker_open_until = CASE WHEN excluded.breaker_window_ms > 0 THEN q.breaker_open_until END,
    expiring_until = CASE WHEN q.message_ttl_ms > 0 AND q.message_ttl_ms <> excluded.message_ttl_ms
        THEN greatest(q.expiring_until, now() + q.message_ttl_ms * interval '1 millisecond')
        ELSE q.expiring_until END
WHERE q.closed_until IS NOT NULL OR
    (` + columnsOf("q", declaredColumns) + `) IS DISTINCT FROM (` + columnsOf("excluded", declaredColumns) + `)`

// settingsArgs are the parameters for settingsColumns.
func settingsArgs(settings message.Settings) []any {
	breaker := message.DefaultBreaker()
	return []any{
		settings.MaxRetries, millis(settings.Backoff.Initial), settings.Backoff.FactorPercent,
		millis(settings.Backoff.Max), settings.Backoff.JitterPercent, millis(settings.VisibilityTimeout),
		settings.MaxDeliveries, string(settings.State), millis(settings.Retention.Succeeded),
		millis(settings.Retention.Dead), string(settings.Retention.OnDeadExpiry), millis(settings.MessageTTL),
		settings.MaxLength, string(cmp.Or(settings.Overflow, message.OverflowReject)), millis(settings.Breaker.Window),
		cmp.Or(settings.Breaker.FailurePercent, breaker.FailurePercent),
		cmp.Or(settings.Breaker.MinSample, breaker.MinSample),
		millis(cmp.Or(settings.Breaker.OpenFor, breaker.OpenFor)), cmp.Or(settings.Breaker.Probes, breaker.Probes),
	}
}

// settingsScan are scan targets for queueColumns.
type settingsScan struct {
	s                                                        message.Settings
	initial, maximum, visibility, succeeded, deadMillis, ttl int64
	window, openFor                                          int64
}

func (t *settingsScan) targets() []any {
	return []any{
		&t.s.MaxRetries, &t.initial, &t.s.Backoff.FactorPercent, &t.maximum, &t.s.Backoff.JitterPercent,
		&t.visibility, &t.s.MaxDeliveries, &t.s.State, &t.succeeded, &t.deadMillis, &t.s.Retention.OnDeadExpiry,
		&t.ttl, &t.s.MaxLength, &t.s.Overflow, &t.window, &t.s.Breaker.FailurePercent, &t.s.Breaker.MinSample,
		&t.openFor, &t.s.Breaker.Probes,
	}
}

func (t *settingsScan) settings() message.Settings {
	settings := t.s
	settings.Backoff.Initial, settings.Backoff.Max = duration(t.initial), duration(t.maximum)
	settings.VisibilityTimeout, settings.MessageTTL = duration(t.visibility), duration(t.ttl)
	settings.Retention.Succeeded, settings.Retention.Dead = duration(t.succeeded), duration(t.deadMillis)
	if settings.Breaker.Window, settings.Breaker.OpenFor = duration(t.window), duration(t.openFor); t.window == 0 {
		settings.Breaker = message.Breaker{}
	}
	return settings
}
