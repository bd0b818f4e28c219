package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

// polls are workers that wait, each at a queue of its own.
type polls struct {
	cancel context.CancelFunc
	group  *errgroup.Group
	woken  chan time.Time
}

const longestPoll = 20 * time.Second

func (b *Bench) poll(ctx context.Context, product *system.Deadletter) (*polls, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &polls{cancel: cancel, group: &errgroup.Group{}, woken: make(chan time.Time, b.LongPolls)}
	for i := range b.LongPolls {
		client, err := product.On(idleQueue(i)).Connect(ctx)
		if err != nil {
			return nil, errors.Join(err, p.stop())
		}
		p.group.Go(func() error {
			defer client.Close()
			return p.wait(ctx, client)
		})
	}
	return p, nil
}

func (p *polls) wait(ctx context.Context, client *system.Client) error {
	for {
		claimed, err := client.Claim(ctx, 1, longestPoll)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("long poll: %w", err)
		case len(claimed) > 0:
			p.woken <- time.Now()
			// What was delivered is settled, also when the polls are to end.
			if err := client.Ack(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
}

// wake sends a message to one of the queues and returns how long it took to wake its worker: proof that they wait.
func (p *polls) wake(ctx context.Context, product *system.Deadletter) (time.Duration, error) {
	client, err := product.On(idleQueue(0)).Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	sent := time.Now()
	if err := client.Enqueue(ctx, load.Backlog(1)); err != nil {
		return 0, err
	}
	select {
	case at := <-p.woken:
		return at.Sub(sent), nil
	case <-time.After(longestPoll):
		return 0, errors.New("a long poll was not woken")
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (p *polls) stop() error {
	p.cancel()
	return p.group.Wait()
}
