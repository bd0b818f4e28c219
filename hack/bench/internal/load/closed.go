package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// Closed is a closed loop: each client sends its next messages when the system has taken the last ones.
type Closed struct {
	Clients int
	// Batch is how many messages go into one call.
	Batch    int
	Duration time.Duration
	// Window bounds the messages that are in the system at once, where workers are not the clients themselves.
	Window int64
	// Backlog tells that the queue holds so many messages from before that those of the run need not come to their end.
	// The caller must then find every other message in the queue.
	Backlog bool
}

// errStuck ends a run in which nothing moves any more.
var errStuck = errors.New("no message has been acknowledged for 30 s")

const stuckAfter = 30 * time.Second

// Run sends for the duration, waits until every message has ended, and checks that.
func (c Closed) Run(ctx context.Context, system System, ledger *Ledger) (took time.Duration, err error) {
	ledger.backlog = c.Backlog
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watch(ctx, ledger, cancel)
	sessions, err := openAll(ctx, system, c.Clients)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeAll(sessions)) }()
	if pusher, ok := system.(Pusher); ok {
		took, err = c.push(ctx, pusher, sessions, ledger)
	} else {
		took, err = c.pull(ctx, sessions, ledger)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return took, err
	}
	return took, ledger.Check()
}

// pull lets every client send, claim and acknowledge in turn.
func (c Closed) pull(ctx context.Context, sessions []Session, ledger *Ledger) (time.Duration, error) {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for _, session := range sessions {
		claimer, ok := session.(Claimer)
		if !ok {
			return 0, fmt.Errorf("%T neither claims nor pushes", session)
		}
		group.Go(func() error { return c.cycle(ctx, claimer, ledger, began.Add(c.Duration)) })
	}
	err := group.Wait()
	return time.Since(began), err
}

// cycle works until the time is over and nothing of the run is left. A client that found too little to claim does not send more,
// so that the queue stays as short as there are clients.
func (c Closed) cycle(ctx context.Context, client Claimer, ledger *Ledger, end time.Time) error {
	limit := int64(c.Clients * c.Batch)
	payloads := make([][]byte, c.Batch)
	for first := true; ; first = false {
		sending := first || time.Now().Before(end) && !ledger.full()
		if !sending && (c.Backlog || ledger.open() <= 0) {
			return nil
		}
		if sending && ledger.open() <= limit {
			if err := send(ctx, client, payloads, ledger); err != nil {
				return err
			}
		}
		claimed, err := client.Claim(ctx, c.Batch, 0)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if err := finish(ctx, client, claimed, ledger); err != nil {
			return err
		}
	}
}

func send(ctx context.Context, client Session, payloads [][]byte, ledger *Ledger) error {
	ledger.compose(payloads, time.Now())
	if err := client.Enqueue(ctx, payloads); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	ledger.Sent(len(payloads))
	return nil
}

func finish(ctx context.Context, client Claimer, claimed [][]byte, events recorder) error {
	if len(claimed) == 0 {
		return nil
	}
	for _, payload := range claimed {
		events.Delivered(payload)
	}
	if err := client.Ack(ctx); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	for _, payload := range claimed {
		events.Acked(payload)
	}
	return nil
}

// push lets the clients send and the system's own workers do the rest. The time is that of the messages: workers start
// before it and stop after it.
func (c Closed) push(
	ctx context.Context, system Pusher, sessions []Session, ledger *Ledger,
) (took time.Duration, err error) {
	window := semaphore.NewWeighted(c.Window)
	events := &windowed{Ledger: ledger, window: window}
	err = withWorkers(ctx, system, events, func(ctx context.Context) error {
		began := time.Now()
		defer func() { took = time.Since(began) }()
		group, sending := errgroup.WithContext(ctx)
		for _, session := range sessions {
			group.Go(func() error { return c.produce(sending, session, ledger, window, began.Add(c.Duration)) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		return ledger.drain(ctx)
	})
	return took, err
}

func (c Closed) produce(
	ctx context.Context, client Session, ledger *Ledger, window *semaphore.Weighted, end time.Time,
) error {
	payloads := make([][]byte, c.Batch)
	for first := true; first || time.Now().Before(end) && !ledger.full(); first = false {
		if err := window.Acquire(ctx, int64(c.Batch)); err != nil {
			return err
		}
		if err := send(ctx, client, payloads, ledger); err != nil {
			return err
		}
	}
	return nil
}

// windowed gives room for the next message when one has ended.
type windowed struct {
	*Ledger

	window *semaphore.Weighted
}

func (w *windowed) Acked(payload []byte) {
	if w.end(payload) {
		w.window.Release(1)
	}
}

// drain waits until every message has ended.
func (l *Ledger) drain(ctx context.Context) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for l.open() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// watch ends the run when nothing has moved for long.
func watch(ctx context.Context, ledger *Ledger, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last, since := ledger.Count(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := ledger.Count(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > stuckAfter {
			cancel(errStuck)
			return
		}
	}
}

func openAll(ctx context.Context, system System, count int) ([]Session, error) {
	sessions := make([]Session, 0, count)
	for range count {
		session, err := system.Open(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect: %w", err), closeAll(sessions))
		}
		sessions = append(sessions, session)
	}
	return sessions, nil
}

func closeAll(sessions []Session) error {
	var err error
	for _, session := range sessions {
		err = errors.Join(err, session.Close())
	}
	return err
}
