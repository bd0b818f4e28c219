package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// senders is how many batches of outcomes are on their way at a time.
const senders = 4

// outcome is how a message's handling ended.
type outcome struct {
	hold *hold
	// report is nil for success.
	report *FailureReport
}

// acks gathers outcomes and reports them in batches. Whoever adds one waits when reporting does not keep up.
type acks struct {
	c     *Client
	queue string
	log   *slog.Logger
	size  int
	delay time.Duration
	in    chan outcome
	slots chan struct{}
}

func newAcks(w *Worker, log *slog.Logger) *acks {
	return &acks{
		c: w.Client, queue: w.Queue, log: log, size: w.AckBatch, delay: w.AckDelay,
		in: make(chan outcome), slots: make(chan struct{}, senders),
	}
}

func (a *acks) add(h *hold, err error) {
	o := outcome{hold: h}
	if err != nil {
		o.report = new(NewReport(err))
	}
	a.in <- o
}

// run reports outcomes until in is closed, and then what is left.
func (a *acks) run(ctx context.Context) {
	var (
		group sync.WaitGroup
		batch []outcome
		due   = time.NewTimer(0)
		isDue bool
		in    = a.in
	)
	defer group.Wait()
	defer due.Stop()
	<-due.C
	for in != nil || len(batch) > 0 {
		receive, send := in, a.slots
		if len(batch) >= a.size {
			receive = nil
		}
		if len(batch) == 0 || !isDue && len(batch) < a.size && in != nil {
			send = nil
		}
		select {
		case o, open := <-receive:
			if !open {
				in = nil
				continue
			}
			if batch = append(batch, o); len(batch) == 1 {
				isDue = a.delay <= 0
				due.Reset(max(a.delay, 0))
			}
		case <-due.C:
			isDue = true
		case send <- struct{}{}:
			sent := batch
			batch, isDue = nil, false
			due.Stop()
			group.Go(func() {
				a.report(ctx, sent)
				<-a.slots
			})
		}
	}
}

// report reports the outcomes of a batch.
func (a *acks) report(ctx context.Context, batch []outcome) {
	var succeeded, failed []outcome
	for _, o := range batch {
		if o.report == nil {
			succeeded = append(succeeded, o)
		} else {
			failed = append(failed, o)
		}
	}
	a.persist(ctx, succeeded, a.succeed)
	a.persist(ctx, failed, a.fail)
}

func (a *acks) succeed(ctx context.Context, batch []outcome) ([]Result, error) {
	leases := make([]Lease, len(batch))
	for i, o := range batch {
		leases[i] = o.hold.m.Lease()
	}
	return a.c.SucceedBatch(ctx, a.queue, leases)
}

func (a *acks) fail(ctx context.Context, batch []outcome) ([]Result, error) {
	failures := make([]FailedLease, len(batch))
	for i, o := range batch {
		failures[i] = FailedLease{Lease: o.hold.m.Lease(), FailureReport: *o.report}
	}
	return a.c.FailBatch(ctx, a.queue, failures)
}

// persist calls the API until it has answered, as long as the leases are kept alive.
func (a *acks) persist(
	ctx context.Context, batch []outcome, call func(context.Context, []outcome) ([]Result, error),
) {
	for number := 1; len(batch) > 0; number++ {
		results, err := call(ctx, batch)
		if err == nil {
			a.conclude(ctx, batch, results)
			return
		}
		if isRefused(err) && len(batch) > 1 {
			// One of them, or all together, is more than the API takes.
			a.persist(ctx, batch[:len(batch)/2], call)
			a.persist(ctx, batch[len(batch)/2:], call)
			return
		}
		wait, _ := try{err: err}.wait(number, a.c.random())
		isLast := isRefused(err) || a.c.pause(ctx, wait) != nil
		a.log.WarnContext(ctx, "outcomes could not be reported", "messages", len(batch), "error", err)
		batch = a.stillHeld(ctx, batch, isLast)
	}
}

// stillHeld gives up those outcomes whose lease is lost, or all of them: these messages will be handled again.
func (a *acks) stillHeld(ctx context.Context, batch []outcome, isLast bool) []outcome {
	var held []outcome
	for _, o := range batch {
		if !isLast && !o.hold.isLost() {
			held = append(held, o)
			continue
		}
		o.hold.end()
		a.log.ErrorContext(ctx, "an outcome is lost; the message will be handled again", "message_id", o.hold.m.ID)
	}
	return held
}

// conclude ends the holds, and tells of outcomes that came too late.
func (a *acks) conclude(ctx context.Context, batch []outcome, results []Result) {
	for i, o := range batch {
		o.hold.end()
		if err := results[i].Err; err != nil {
			a.log.WarnContext(ctx, "an outcome was refused; the message is handled again",
				"message_id", o.hold.m.ID, "error", err)
		}
	}
}

// isRefused recognises answers that are about the request itself.
func isRefused(err error) bool {
	problem := new(Error)
	return errors.As(err, &problem) &&
		(problem.Status == http.StatusRequestEntityTooLarge || problem.Status == http.StatusUnprocessableEntity)
}
