package scenario

import (
	"context"
	"errors"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

const latencyRate = 1000

// latency is P5.
func latency(ctx context.Context, b *Bench, result *report.Result) error {
	result.Columns = []report.Column{
		report.P50, report.P99, report.Max, report.Rate, report.WAL, report.Transactions, report.ServerCPU,
		report.PostgresCPU, report.ClientCPU,
	}
	result.RatioTitle = "p99 is"
	result.Chart = report.Chart{Unit: "ms from enqueue to delivery, 99th percentile", Value: report.P99.Value}
	loop := load.Open{Rate: latencyRate, Senders: 32, Workers: 32, Duration: b.Measure}
	result.Rows = append(result.Rows, b.row(ctx, b.ours(), report.Ours, b.delivery(loop)))
	b.compare(ctx, result, b.peers(), b.delivery(loop))
	ours := result.Ours()
	for _, row := range result.Rows {
		if row.Role == report.Peer && row.Figures.P99Millis > 0 {
			result.Ratios = append(result.Ratios,
				report.RatioTo{Name: row.Name, Value: report.Ratio(ours.P99Millis, row.Figures.P99Millis)})
		}
	}
	result.AtMost("p50 at most 3 ms", 3, ours.P50Millis)
	result.AtMost("p99 at most 20 ms", 20, ours.P99Millis)
	return ctx.Err()
}

// delivery starts a system and runs the open loop on it, once to warm up.
func (b *Bench) delivery(loop load.Open) func(context.Context, system.Kind) (report.Figures, error) {
	return func(ctx context.Context, kind system.Kind) (figures report.Figures, err error) {
		site, err := b.start(ctx, kind, loop.Senders+loop.Workers, 1)
		if err != nil {
			return figures, err
		}
		defer func() {
			_, failure := site.end(ctx)
			err = errors.Join(err, failure)
		}()
		warming := loop
		warming.Duration = b.Warm
		if _, err := warming.Run(ctx, site.System, load.NewLedger()); err != nil {
			return figures, err
		}
		before, err := site.look(ctx)
		if err != nil {
			return figures, err
		}
		ledger := load.NewLedger()
		watching := b.follow(ctx, kind.Name, ledger)
		took, err := loop.Run(ctx, site.System, ledger)
		perSecond := watching()
		if err != nil {
			return figures, err
		}
		figures = report.Figures{
			Messages: ledger.Count(), Seconds: took.Seconds(), PerSecond: perSecond, Redelivered: ledger.Repeats(),
			MessagesPerSecond: float64(ledger.Count()) / took.Seconds(),
			P50Millis:         millis(ledger.ToDelivery.Quantile(0.5)),
			P99Millis:         millis(ledger.ToDelivery.Quantile(0.99)),
			MaxMillis:         millis(ledger.ToDelivery.Max()),
		}
		b.Say("%s: p50 %.1f ms, p99 %.1f ms, max %.1f ms", kind.Name,
			figures.P50Millis, figures.P99Millis, figures.MaxMillis)
		return figures, site.spent(ctx, before, &figures)
	}
}
