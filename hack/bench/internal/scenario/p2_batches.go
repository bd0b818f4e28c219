package scenario

import (
	"context"

	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

// engineCeiling is the design of the engine's statements.
var engineCeiling = system.CeilingUpdate

// batches is P2.
func batches(ctx context.Context, b *Bench, result *report.Result) error {
	result.Columns = report.Throughput
	result.Chart = report.Chart{Unit: "messages/s", Value: report.Rate.Value}
	run := b.throughput(b.batches())
	result.Rows = append(result.Rows, b.row(ctx, b.ours(), report.Ours, run))
	b.compare(ctx, result, append(b.peers(), system.RiverCopy), run)
	b.compare(ctx, result, []system.Kind{system.CeilingAppend, system.CeilingUpdate}, run)
	result.CompareRates()
	if river, ok := result.Row(system.River.Name); ok {
		ratio := report.Ratio(result.Ours().MessagesPerSecond, river.MessagesPerSecond)
		result.AtLeast("at least 4 × River with InsertMany", 4, ratio)
	}
	if raw, ok := result.Row(engineCeiling.Name); ok {
		ratio := report.Ratio(result.Ours().MessagesPerSecond, raw.MessagesPerSecond)
		result.AtLeast("at least half of "+engineCeiling.Name, 0.5, ratio)
	}
	return ctx.Err()
}
