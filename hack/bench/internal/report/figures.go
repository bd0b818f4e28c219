package report

import "math"

// Figures are what one system did in one scenario. What was not measured is 0 and left out.
type Figures struct {
	// Messages is how many were enqueued and acknowledged, all of them.
	Messages          int64   `json:"messages,omitempty"`
	Seconds           float64 `json:"seconds,omitempty"`
	MessagesPerSecond float64 `json:"messages_per_second,omitempty"`
	// Latencies are those of the scenario: to the acknowledgement under closed load, to the delivery under open load.
	P50Millis float64 `json:"p50_ms,omitempty"`
	P99Millis float64 `json:"p99_ms,omitempty"`
	MaxMillis float64 `json:"max_ms,omitempty"`
	// What Postgres did for each message: log written, transactions that wrote, row versions left for vacuum.
	WALBytesPerMessage     float64 `json:"wal_bytes_per_message,omitempty"`
	TransactionsPerMessage float64 `json:"transactions_per_message,omitempty"`
	StatementsPerMessage   float64 `json:"statements_per_message,omitempty"`
	DeadRowsPerMessage     float64 `json:"dead_rows_per_message,omitempty"`
	DeadRowsAtEnd          int64   `json:"dead_rows_at_end,omitempty"`
	// CPU time: of the servers (Postgres, brokers, our API) and of the load generator with what runs in its process.
	ServerCPUMicros   float64 `json:"server_cpu_us_per_message,omitempty"`
	PostgresCPUMicros float64 `json:"postgres_cpu_us_per_message,omitempty"`
	ClientCPUMicros   float64 `json:"client_cpu_us_per_message,omitempty"`
	// Redelivered is how many messages came again after they had been acknowledged.
	Redelivered int64 `json:"redelivered,omitempty"`
	// Added is how many messages more than before are in the queue: none, but in a queue that was full.
	Added int64 `json:"added,omitempty"`
	// PerSecond is the messages acknowledged in each second.
	PerSecond []float64 `json:"per_second,omitempty"`
	// Other are figures that only one scenario has, by name and unit.
	Other map[string]float64 `json:"other,omitempty"`
	// Skipped tells why the system did not run.
	Skipped string `json:"skipped,omitempty"`
}

// Ratio is a/b, and 0 when there is nothing to compare.
func Ratio(a, b float64) float64 {
	if b == 0 || math.IsNaN(a) || math.IsNaN(b) {
		return 0
	}
	return a / b
}
