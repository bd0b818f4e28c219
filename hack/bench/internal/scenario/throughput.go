package scenario

import (
	"context"
	"errors"
	"time"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

func (b *Bench) singles(clients int) load.Closed {
	return load.Closed{Clients: clients, Batch: 1, Duration: b.Measure}
}

func (b *Bench) batches() load.Closed {
	return load.Closed{Clients: b.BatchClients, Batch: 100, Duration: b.Measure}
}

// throughput starts a system on an empty database and runs the loop on it.
func (b *Bench) throughput(loop load.Closed) func(context.Context, system.Kind) (report.Figures, error) {
	return func(ctx context.Context, kind system.Kind) (figures report.Figures, err error) {
		loop.Window = kind.Window
		site, err := b.start(ctx, kind, loop.Clients, loop.Batch)
		if err != nil {
			return figures, err
		}
		warm := load.NewLedger()
		figures, err = b.measure(ctx, kind.Name, site, site.System, loop, warm)
		if err == nil && kind.Name == system.OursName {
			err = b.recordStatements(ctx, site, loop)
		}
		rows, failure := site.end(ctx)
		all := float64(figures.Messages + warm.Count())
		figures.DeadRowsPerMessage, figures.DeadRowsAtEnd = report.Ratio(float64(rows.Killed), all), rows.Dead
		return figures, errors.Join(err, failure)
	}
}

// measure warms the target up, which site runs, and measures the loop.
func (b *Bench) measure(
	ctx context.Context, name string, site *site, target load.System, loop load.Closed, warm *load.Ledger,
) (report.Figures, error) {
	warming := loop
	warming.Duration = b.Warm
	if _, err := warming.Run(ctx, target, warm); err != nil {
		return report.Figures{}, err
	}
	return b.measureNow(ctx, name, site, target, loop)
}

// measureNow measures the loop on a target that is warm.
func (b *Bench) measureNow(
	ctx context.Context, name string, site *site, target load.System, loop load.Closed,
) (report.Figures, error) {
	before, err := site.look(ctx)
	if err != nil {
		return report.Figures{}, err
	}
	ledger := load.NewLedger()
	watching := b.follow(ctx, name, ledger)
	took, err := loop.Run(ctx, target, ledger)
	perSecond := watching()
	if err != nil {
		return report.Figures{}, err
	}
	figures := report.Figures{
		Messages:          ledger.Count(),
		Seconds:           took.Seconds(),
		MessagesPerSecond: float64(ledger.Count()) / took.Seconds(),
		P50Millis:         millis(ledger.ToAck.Quantile(0.5)),
		P99Millis:         millis(ledger.ToAck.Quantile(0.99)),
		MaxMillis:         millis(ledger.ToAck.Max()),
		Redelivered:       ledger.Repeats(),
		Added:             ledger.Added(),
		PerSecond:         perSecond,
	}
	err = site.spent(ctx, before, &figures)
	b.Say("%s: %s msg/s, p50 %.1f ms, p99 %.1f ms; %s accepted, %s acknowledged", name,
		report.Number(figures.MessagesPerSecond), figures.P50Millis, figures.P99Millis,
		report.Number(float64(figures.Messages+figures.Added)), report.Number(float64(figures.Messages)))
	return figures, err
}

// follow tells every other second how far a run is. The returned function ends that and gives the rate of each second.
func (b *Bench) follow(ctx context.Context, name string, ledger *load.Ledger) (stop func() []float64) {
	ctx, cancel := context.WithCancel(ctx)
	rates := make(chan []float64)
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		var perSecond []float64
		last := int64(0)
		for {
			select {
			case <-ctx.Done():
				rates <- perSecond
				return
			case <-ticker.C:
			}
			now := ledger.Count()
			perSecond = append(perSecond, float64(now-last))
			if len(perSecond)%2 == 0 {
				b.Say("%s: %s msg/s", name, report.Number(float64(now-last)))
			}
			last = now
		}
	}()
	return func() []float64 {
		cancel()
		return <-rates
	}
}
