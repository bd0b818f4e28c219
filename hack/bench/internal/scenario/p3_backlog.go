package scenario

import (
	"context"
	"errors"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

// kept is the part of the clean figure that P3 and P4 must keep.
const kept = 0.9

// withBacklog is P3: the loops of P1 and P2 on an empty database, then in two queues of a full one.
func withBacklog(ctx context.Context, b *Bench, result *report.Result) error {
	result.Columns = append([]report.Column{}, report.Throughput...)
	result.RatioTitle = "of empty"
	result.Chart = report.Chart{Unit: "messages/s", Value: report.Rate.Value}
	singles, batches := b.singles(singleClients), b.batches()
	empty, err := b.emptyFigures(ctx, singles, batches)
	if err != nil {
		return err
	}
	result.Rows = append(result.Rows,
		report.Row{Name: "single, empty", Role: report.Variant, Figures: empty[0]},
		report.Row{Name: "batches, empty", Role: report.Variant, Figures: empty[1]})
	full, err := b.loadedBacklog(ctx)
	if err != nil {
		return err
	}
	for _, place := range []struct {
		name, queue string
		role        report.Role
		loop        load.Closed
		empty       report.Figures
	}{
		{"single, another queue", "bench", report.Variant, singles, empty[0]},
		{"batches, another queue", "bench", report.Ours, batches, empty[1]},
		{"single, the full queue", bigQueue, report.Variant, singles, empty[0]},
		{"batches, the full queue", bigQueue, report.Variant, batches, empty[1]},
	} {
		place.loop.Backlog = place.queue == bigQueue
		warm := load.NewLedger()
		figures, err := b.measure(ctx, place.name, full.site, full.system.On(place.queue), place.loop, warm)
		if err != nil {
			return err
		}
		full.pending[bigQueue] += warm.Added() + figures.Added
		ratio := report.Ratio(figures.MessagesPerSecond, place.empty.MessagesPerSecond)
		result.Rows = append(result.Rows, report.Row{Name: place.name, Role: place.role, Figures: figures})
		result.Ratios = append(result.Ratios, report.RatioTo{Name: place.name, Value: ratio})
		result.AtLeast(place.name+": at least 0.9 of empty", kept, ratio)
	}
	return full.check(ctx)
}

// emptyFigures measures the loops on a database of their own.
func (b *Bench) emptyFigures(ctx context.Context, loops ...load.Closed) (all []report.Figures, err error) {
	site, err := b.start(ctx, b.ours(), singleClients, 1)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, failure := site.end(ctx)
		err = errors.Join(err, failure)
	}()
	for _, loop := range loops {
		figures, err := b.measure(ctx, system.OursName+", empty", site, site.System, loop, load.NewLedger())
		if err != nil {
			return nil, err
		}
		all = append(all, figures)
	}
	return all, nil
}
