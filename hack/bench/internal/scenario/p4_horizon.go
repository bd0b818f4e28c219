package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

const (
	cleanRate = "clean msg/s"
	wholeRate = "held msg/s, all"
	keptPart  = "kept at the end"
)

// horizon is P4: the loop of P2, first clean, then with a transaction that holds the horizon.
func horizon(ctx context.Context, b *Bench, result *report.Result) error {
	result.Title = fmt.Sprintf("Batches of 100 while a transaction holds the xmin horizon for %v", b.Pin)
	result.Columns = []report.Column{
		report.Other(cleanRate), report.Other(wholeRate),
		{Title: "held msg/s, last third", Value: report.Rate.Value},
		report.Other(keptPart),
		report.P50, report.P99, report.WAL, report.DeadRows, report.ServerCPU,
	}
	result.Chart = report.Chart{Unit: "messages/s", Mark: int(b.Measure.Seconds()), MarkText: "horizon held from here"}
	for _, row := range []struct {
		kind system.Kind
		role report.Role
		pin  pin
	}{
		{b.ours(), report.Ours, readerPin},
		{b.ours(), report.Variant, writerPin},
		{b.ours(), report.Variant, dumpPin},
		{system.River, report.Peer, readerPin},
		{system.Plain, report.Peer, readerPin},
	} {
		if row.role == report.Peer && !b.wants(row.kind) {
			continue
		}
		added := b.row(ctx, row.kind, row.role, b.pinned(row.pin))
		part := added.Figures.Other[keptPart]
		if row.role != report.Peer {
			result.AtLeast(row.pin.name+": at least 0.9 of clean at the end", kept, part)
		}
		if row.role == report.Variant {
			added.Name += ", " + row.pin.name
		}
		result.Rows = append(result.Rows, added)
	}
	result.CompareRates()
	return ctx.Err()
}

// pinned measures clean, then held; the figures are the held ones, the rate that of the last third.
func (b *Bench) pinned(pin pin) func(context.Context, system.Kind) (report.Figures, error) {
	return func(ctx context.Context, kind system.Kind) (figures report.Figures, err error) {
		loop := b.batches()
		loop.Window = kind.Window
		site, err := b.start(ctx, kind, loop.Clients, loop.Batch)
		if err != nil {
			return figures, err
		}
		warm := load.NewLedger()
		clean, err := b.measure(ctx, kind.Name+", clean", site, site.System, loop, warm)
		if err == nil {
			loop.Duration = b.Pin
			figures, err = b.held(ctx, kind.Name+", "+pin.name, pin, site, loop)
		}
		rows, failure := site.end(ctx)
		if err := errors.Join(err, failure); err != nil {
			return figures, err
		}
		all := float64(warm.Count() + clean.Messages + figures.Messages)
		figures.DeadRowsPerMessage, figures.DeadRowsAtEnd = report.Ratio(float64(rows.Killed), all), rows.Dead
		whole := figures.MessagesPerSecond
		figures.MessagesPerSecond = lastThird(figures.PerSecond, int(b.Pin.Seconds()))
		figures.PerSecond = append(firstSeconds(clean.PerSecond, b.Measure), firstSeconds(figures.PerSecond, b.Pin)...)
		figures.Other = map[string]float64{
			cleanRate: clean.MessagesPerSecond, wholeRate: whole,
			keptPart: report.Ratio(figures.MessagesPerSecond, clean.MessagesPerSecond),
		}
		return figures, nil
	}
}

// held measures the loop while the pin is held, which takes no warm-up: the loop has been running.
func (b *Bench) held(ctx context.Context, name string, pin pin, site *site, loop load.Closed) (report.Figures, error) {
	release, err := pin.hold(ctx, b.postgres.URL(site.database))
	if err != nil {
		return report.Figures{}, err
	}
	figures, err := b.measureNow(ctx, name, site, site.System, loop)
	return figures, errors.Join(err, release())
}

// firstSeconds leaves out the seconds in which nothing more was sent.
func firstSeconds(perSecond []float64, sending time.Duration) []float64 {
	return slices.Clone(perSecond[:min(int(sending.Seconds()), len(perSecond))])
}

// lastThird is the mean of the last third of the seconds in which messages were sent.
func lastThird(perSecond []float64, sending int) float64 {
	end := min(sending, len(perSecond))
	start := end - max(end/3, 1)
	if start < 0 {
		return 0
	}
	sum := 0.0
	for _, rate := range perSecond[start:end] {
		sum += rate
	}
	return sum / float64(end-start)
}
