package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Open is an open loop: messages are due at a steady rate, whether the system keeps up or not, and workers wait for
// them. A message that is sent late because the senders were still busy has its latency counted from when it was due.
type Open struct {
	// Rate is the messages per second.
	Rate     int
	Senders  int
	Workers  int
	Duration time.Duration
}

const (
	// openClaim is what a worker takes at once: more than one, so that a late worker can catch up.
	openClaim = 10
	openWait  = 20 * time.Second
)

// Run sends for the duration, waits until every message has ended, and checks that.
func (o Open) Run(ctx context.Context, system System, ledger *Ledger) (took time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watch(ctx, ledger, cancel)
	senders, err := openAll(ctx, system, o.Senders)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeAll(senders)) }()
	pusher, ok := system.(Pusher)
	if !ok {
		workers, err := openAll(ctx, system, o.Workers)
		if err != nil {
			return 0, err
		}
		defer func() { _ = closeAll(workers) }() // They were cut off in the middle of a wait.
		pusher = pullers{System: system, workers: workers}
	}
	err = withWorkers(ctx, pusher, ledger, func(ctx context.Context) error {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		if err := o.sendAll(ctx, senders, ledger); err != nil {
			return err
		}
		return ledger.drain(ctx)
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return took, err
	}
	return took, ledger.Check()
}

func (o Open) sendAll(ctx context.Context, senders []Session, ledger *Ledger) error {
	began, total := time.Now(), int64(o.Duration.Seconds()*float64(o.Rate))
	interval := time.Second / time.Duration(o.Rate)
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for _, sender := range senders {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < total; i = next.Add(1) - 1 {
				due, err := waitFor(ctx, began.Add(time.Duration(i)*interval))
				if err != nil {
					return err
				}
				if err := sendDue(ctx, sender, ledger, due); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// waitFor waits for the time and returns it, or the time at which it woke: what a timer is late is not the system's.
func waitFor(ctx context.Context, due time.Time) (time.Time, error) {
	left := time.Until(due)
	if left <= 0 {
		return due, ctx.Err()
	}
	select {
	case <-ctx.Done():
		return due, ctx.Err()
	case <-time.After(left):
		return time.Now(), nil
	}
}

func sendDue(ctx context.Context, sender Session, ledger *Ledger, due time.Time) error {
	payloads := make([][]byte, 1)
	ledger.compose(payloads, due)
	if err := sender.Enqueue(ctx, payloads); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	ledger.Sent(1)
	return nil
}

// pullers makes a [Pusher] of a system whose workers ask for work.
type pullers struct {
	System

	workers []Session
}

// Work implements [Pusher].
func (p pullers) Work(ctx context.Context, events Events) error {
	events.Ready()
	group, ctx := errgroup.WithContext(ctx)
	for _, session := range p.workers {
		worker, ok := session.(Claimer)
		if !ok {
			return fmt.Errorf("%T neither claims nor pushes", session)
		}
		group.Go(func() error {
			for {
				claimed, err := worker.Claim(ctx, openClaim, openWait)
				if err != nil {
					return fmt.Errorf("claim: %w", err)
				}
				if err := finish(context.WithoutCancel(ctx), worker, claimed, events); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}
