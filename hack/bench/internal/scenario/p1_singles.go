package scenario

import (
	"context"

	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

const (
	singleClients = 64
	manyClients   = 256
)

// singles is P1.
func singles(ctx context.Context, b *Bench, result *report.Result) error {
	result.Columns = report.Throughput
	result.Chart = report.Chart{Unit: "messages/s", Value: report.Rate.Value}
	run := b.throughput(b.singles(singleClients))
	result.Rows = append(result.Rows, b.row(ctx, b.ours(), report.Ours, run))
	many := b.row(ctx, b.ours(), report.Variant, b.throughput(b.singles(manyClients)))
	many.Name += ", 256 clients"
	result.Rows = append(result.Rows, many)
	b.compare(ctx, result, b.peers(), run)
	result.CompareRates()
	if river, ok := result.Row(system.River.Name); ok {
		ratio := report.Ratio(result.Ours().MessagesPerSecond, river.MessagesPerSecond)
		result.AtLeast("at least 2 × River with one-row inserts", 2, ratio)
	}
	return ctx.Err()
}
