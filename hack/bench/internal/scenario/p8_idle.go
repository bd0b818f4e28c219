package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/measure"
	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

const (
	apiCPU      = "API CPU, % of a core"
	postgresCPU = "Postgres CPU, % of a core"
	perSecond   = "statements/s"
	apiMemory   = "API MiB"
	wakeUp      = "wake-up ms"
	// idleStatements is what the API may ask per second for itself: far below one per queue or poll.
	idleStatements = 100
)

// idle is P8: many queues that have had a message and are empty, and workers that wait at some of them.
func idle(ctx context.Context, b *Bench, result *report.Result) error {
	result.Title = fmt.Sprintf("%d idle queues, %d long polls", b.IdleQueues, b.LongPolls)
	result.Columns = []report.Column{
		report.Other(apiCPU), report.Other(postgresCPU), report.Other(perSecond), report.Other(apiMemory),
		report.Other(wakeUp),
	}
	result.Chart = report.Chart{Unit: apiCPU, Value: report.Other(apiCPU).Value}
	row := b.row(ctx, b.ours(), report.Ours, b.idling)
	result.Rows = append(result.Rows, row)
	if row.Figures.Skipped == "" {
		result.AtMost("API: at most 2 % of a core", 2, row.Figures.Other[apiCPU])
		result.AtMost(fmt.Sprintf("no statement per queue: at most %d/s in all", idleStatements), idleStatements,
			row.Figures.Other[perSecond])
	}
	return ctx.Err()
}

func (b *Bench) idling(ctx context.Context, kind system.Kind) (figures report.Figures, err error) {
	site, err := b.start(ctx, kind, b.LongPolls, 1)
	if err != nil {
		return figures, err
	}
	defer func() {
		_, failure := site.end(ctx)
		err = errors.Join(err, failure)
	}()
	product, ok := site.System.(*system.Deadletter)
	if !ok {
		return figures, fmt.Errorf("%T is not the product", site.System)
	}
	if err := b.makeIdle(ctx, product); err != nil {
		return figures, fmt.Errorf("make idle queues: %w", err)
	}
	polls, err := b.poll(ctx, product)
	if err != nil {
		return figures, err
	}
	figures, err = b.watchIdle(ctx, site)
	if err != nil {
		return figures, errors.Join(err, polls.stop())
	}
	woken, err := polls.wake(ctx, product)
	figures.Other[wakeUp] = millis(woken)
	return figures, errors.Join(err, polls.stop())
}

func idleQueue(i int) string { return fmt.Sprintf("idle-%05d", i) }

// makeIdle sends a message through every queue.
func (b *Bench) makeIdle(ctx context.Context, product *system.Deadletter) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range singleClients {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < b.IdleQueues; i = int(next.Add(1)) - 1 {
				if err := throughOnce(ctx, product.On(idleQueue(i))); err != nil {
					return err
				}
				if i%2000 == 0 {
					b.Say("idle queues: %d of %d", i, b.IdleQueues)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func throughOnce(ctx context.Context, product *system.Deadletter) error {
	client, err := product.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Enqueue(ctx, load.Backlog(1)); err != nil {
		return err
	}
	if claimed, err := client.Claim(ctx, 1, time.Second); err != nil || len(claimed) != 1 {
		return errors.Join(err, fmt.Errorf("claimed %d messages of 1", len(claimed)))
	}
	return client.Ack(ctx)
}

// watchIdle measures what nothing costs.
func (b *Bench) watchIdle(ctx context.Context, site *site) (report.Figures, error) {
	// The last statistics of making the queues, and checkpoints, are over by then.
	if err := pause(ctx, b.Warm); err != nil {
		return report.Figures{}, err
	}
	before, err := site.look(ctx)
	if err != nil {
		return report.Figures{}, err
	}
	length := min(max(b.Measure*5/2, 4*time.Second), 20*time.Second)
	b.Say("watching %d idle queues and %d long polls for %v", b.IdleQueues, b.LongPolls, length)
	for range 4 {
		if err := pause(ctx, length/4); err != nil {
			return report.Figures{}, err
		}
		b.Say("still watching")
	}
	after, err := site.look(ctx)
	if err != nil {
		return report.Figures{}, err
	}
	memory, err := measure.ReadMemory(site.Processes()[0])
	took := after.at.Sub(before.at)
	percent := func(used time.Duration) float64 { return 100 * used.Seconds() / took.Seconds() }
	return report.Figures{Seconds: took.Seconds(), Other: map[string]float64{
		apiCPU:      percent(after.servers - before.servers),
		postgresCPU: percent(after.postgres - before.postgres),
		perSecond:   float64(after.written.Minus(before.written).Statements) / took.Seconds(),
		apiMemory:   float64(memory.Resident) / (1 << 20),
	}}, err
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}
