package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

const (
	backlogDatabase = "backlog"
	// bigQueue holds nine tenths of the pending messages and all the dead ones; smallQueues share the rest.
	bigQueue      = "backlog"
	smallQueues   = 90
	backlogBatch  = 1000
	backlogLoader = 8
)

// backlog is the product with very many messages, which P3 and P6 share.
type backlog struct {
	site   *site
	system *system.Deadletter
	// pending and dead are what each queue holds.
	pending, dead map[string]int64
	loaded        time.Time
}

// loadedBacklog makes the backlog once.
func (b *Bench) loadedBacklog(ctx context.Context) (*backlog, error) {
	if b.backlog != nil {
		return b.backlog, nil
	}
	site, err := b.startOn(ctx, backlogDatabase, b.ours(), backlogLoader, backlogBatch)
	if err != nil {
		return nil, err
	}
	product, ok := site.System.(*system.Deadletter)
	if !ok {
		return nil, fmt.Errorf("%T is not the product", site.System)
	}
	b.backlog = &backlog{site: site, system: product, pending: map[string]int64{}, dead: map[string]int64{}}
	return b.backlog, b.backlog.load(ctx, b)
}

// load goes through the API: first the messages that die, while nothing is before them, then those that stay.
func (l *backlog) load(ctx context.Context, b *Bench) error {
	dead, pending := rounded(b.Dead), rounded(b.Pending*9/10)
	l.dead[bigQueue], l.pending[bigQueue] = dead, pending
	if err := l.fill(ctx, b, "dead letters", dead, func(ctx context.Context, client *system.Client) error {
		if err := client.Enqueue(ctx, load.Backlog(backlogBatch)); err != nil {
			return err
		}
		return killAll(ctx, client)
	}); err != nil {
		return fmt.Errorf("load dead letters: %w", err)
	}
	if err := l.fill(ctx, b, "pending messages", pending, func(ctx context.Context, client *system.Client) error {
		return client.Enqueue(ctx, load.Backlog(backlogBatch))
	}); err != nil {
		return fmt.Errorf("load pending messages: %w", err)
	}
	if err := l.fillSmall(ctx, b.Pending/10/smallQueues); err != nil {
		return fmt.Errorf("load small queues: %w", err)
	}
	l.loaded = time.Now()
	// What the load left to be written must not be written during a measurement.
	_, err := l.site.conn.Exec(ctx, "CHECKPOINT")
	return err
}

func rounded(count int) int64 { return int64(max(count/backlogBatch, 1) * backlogBatch) }

// killAll claims until it has made dead letters of one batch: others may have taken some of its own.
func killAll(ctx context.Context, client *system.Client) error {
	for killed := 0; killed < backlogBatch; {
		claimed, err := client.Claim(ctx, backlogBatch-killed, time.Second)
		if err != nil {
			return err
		}
		if len(claimed) == 0 {
			continue
		}
		if err := client.Kill(ctx, "card declined by issuer"); err != nil {
			return err
		}
		killed += len(claimed)
	}
	return nil
}

// fill repeats a step that moves one batch until so many messages have moved.
func (l *backlog) fill(
	ctx context.Context, b *Bench, what string, count int64, step func(context.Context, *system.Client) error,
) error {
	var moved, taken atomic.Int64
	done := make(chan struct{})
	defer close(done)
	go func() {
		ticker := time.NewTicker(3 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				b.Say("loading %s: %s of %s", what, report.Number(float64(moved.Load())), report.Number(float64(count)))
			}
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	for range backlogLoader {
		group.Go(func() error {
			client, err := l.system.On(bigQueue).Connect(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			for taken.Add(backlogBatch) <= count {
				if err := step(ctx, client); err != nil {
					return err
				}
				moved.Add(backlogBatch)
			}
			return nil
		})
	}
	err := group.Wait()
	b.Say("loaded %s %s", report.Number(float64(moved.Load())), what)
	return err
}

func (l *backlog) fillSmall(ctx context.Context, each int) error {
	for i := range smallQueues {
		queue := fmt.Sprintf("%s-%02d", bigQueue, i)
		client, err := l.system.On(queue).Connect(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		for left := max(each, 1); left > 0; left -= backlogBatch {
			batch := min(left, backlogBatch)
			if err := client.Enqueue(ctx, load.Backlog(batch)); err != nil {
				return err
			}
			l.pending[queue] += int64(batch)
		}
	}
	return nil
}
