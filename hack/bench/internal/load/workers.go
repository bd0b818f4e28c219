package load

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// recorder is what the loops make of events.
type recorder interface {
	Delivered(payload []byte)
	Acked(payload []byte)
}

// readied adds the news that the workers are ready.
type readied struct {
	recorder

	ready chan struct{}
}

func (r readied) Ready() { close(r.ready) }

// withWorkers runs the system's workers as long as work takes, which begins when they are ready.
func withWorkers(ctx context.Context, system Pusher, events recorder, work func(context.Context) error) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	ready := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := system.Work(working, readied{recorder: events, ready: ready})
		if working.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // Asked to stop, and nothing else happened.
		}
		return fmt.Errorf("workers: %w", err)
	})
	group.Go(func() error {
		defer stop()
		select {
		case <-ready:
			return work(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return group.Wait()
}
