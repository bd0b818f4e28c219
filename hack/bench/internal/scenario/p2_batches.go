package scenario

import (
	"context"

	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

// batches is P2.
func batches(ctx context.Context, b *Bench, result *report.Result) error {
	result.Columns = report.Throughput
	result.Chart = report.Chart{Unit: "messages/s", Value: report.Rate.Value}
	run := b.throughput(b.batches())
	result.Rows = append(result.Rows, b.row(ctx, b.ours(), report.Ours, run))
	for _, kind := range []system.Kind{system.River, system.RiverCopy, system.RiverDefaults, system.Plain} {
		result.Rows = append(result.Rows, b.row(ctx, kind, report.Peer, run))
	}
	result.CompareRates()
	if river, ok := result.Row(system.River.Name); ok {
		ratio := report.Ratio(result.Ours().MessagesPerSecond, river.MessagesPerSecond)
		result.AtLeast("at least 4 × River with InsertMany", 4, ratio)
	}
	return ctx.Err()
}
