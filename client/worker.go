package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Handler works on one message. What it returns is how the message ends:
//
//   - nil: it is finished;
//   - an error: the failure is recorded as [NewReport] describes it, and the message is tried again after a wait, or
//     dead when its retries are used up; see [Permanent], [RetryAfter] and [WithCategory];
//   - a panic is a failure with its stack; the worker goes on.
//
// The context ends when the lease is lost, with the cause [ErrLeaseLost], and when a shutdown has run out of patience,
// with the cause [ErrShutdown]. It carries the span of the handling. What the handler returns then is not reported, and
// the message is handled again.
type Handler func(ctx context.Context, m *Message) error

var (
	// ErrLeaseLost is the cause of a handler's context when another worker may have the message now.
	ErrLeaseLost = errors.New("the lease of the message is lost")
	// ErrShutdown is the cause of a handler's context when it has not finished within [Worker.ShutdownGrace].
	ErrShutdown = errors.New("the worker shuts down")
)

// Worker claims messages of one queue and hands them to a function. Client, Queue and Handler are required; all else
// has a default. The value is not changed by running it.
type Worker struct {
	Client  *Client
	Queue   string
	Handler Handler

	// Concurrency is how many messages are handled at a time; 10 by default.
	Concurrency int
	// Prefetch is how many messages are claimed beyond those being handled, so that one is at hand when a handler is
	// done; none by default. It pays for handlers that take milliseconds; with slow ones, messages wait here while
	// another worker might be idle.
	Prefetch int
	// PollWait is how long a claim waits for a message, from 1 s to 20 s, which is the default.
	PollWait time.Duration
	// VisibilityTimeout is how long messages are held, from 1 s to 12 h, without a sign of life; 0 leaves it to the queue.
	// A handler may take longer: its lease is extended after each third of it.
	VisibilityTimeout time.Duration
	// ShutdownGrace is how long handlers may go on once Run's context has ended; 20 s by default, negative for not at
	// all. Run returns within some 15 s more: Kubernetes' terminationGracePeriodSeconds should leave room for it.
	ShutdownGrace time.Duration
	// AckBatch is how many outcomes are reported at once, from 1 to 1,000; 100 by default. AckDelay is how long the first
	// of them waits for others; 5 ms by default, negative for not at all.
	AckBatch int
	AckDelay time.Duration
	// Breaker, when set, stops claiming while what the handler depends on is down.
	Breaker *Breaker
	// Logger is told what goes wrong, never payloads; [slog.Default] by default.
	Logger *slog.Logger
}

const (
	defaultConcurrency   = 10
	defaultPollWait      = 20 * time.Second
	defaultShutdownGrace = 20 * time.Second
	defaultAckBatch      = 100
	defaultAckDelay      = 5 * time.Millisecond
	maxBatch             = 1000
)

// Run works until ctx ends, and then shuts down: it claims no more, gives back at once what it has not started, waits
// ShutdownGrace for handlers, interrupts those that are left and gives their messages back, and reports what is
// finished. It then returns nil.
//
// While the API cannot be reached, or refuses the worker's token, Run goes on trying. It returns an error when a
// setting is not valid, when the API says that claims of this kind can never succeed, or when handlers did not return
// even after they were interrupted; their messages are given back all the same, and the process should end.
func (w Worker) Run(ctx context.Context) error {
	w, err := w.complete()
	if err != nil {
		return err
	}
	r, err := newRun(ctx, &w)
	if err != nil {
		return err
	}
	return r.run(ctx)
}

// complete checks the settings and fills in the defaults.
func (w Worker) complete() (Worker, error) {
	w.Concurrency = cmp.Or(w.Concurrency, defaultConcurrency)
	w.PollWait = cmp.Or(w.PollWait, defaultPollWait)
	w.ShutdownGrace = cmp.Or(w.ShutdownGrace, defaultShutdownGrace)
	w.AckBatch = cmp.Or(w.AckBatch, defaultAckBatch)
	w.AckDelay = cmp.Or(w.AckDelay, defaultAckDelay)
	if w.Logger == nil {
		w.Logger = slog.Default()
	}
	return w, w.validate()
}

func (w Worker) validate() error {
	switch {
	case w.Client == nil:
		return errors.New("worker: Client is required")
	case w.Queue == "":
		return errors.New("worker: Queue is required")
	case w.Handler == nil:
		return errors.New("worker: Handler is required")
	case w.Concurrency < 0 || w.Prefetch < 0:
		return errors.New("worker: Concurrency and Prefetch must not be negative")
	case w.PollWait < time.Second || w.PollWait > defaultPollWait:
		return fmt.Errorf("worker: PollWait must be from 1s to %s", defaultPollWait)
	case w.VisibilityTimeout != 0 && (w.VisibilityTimeout < time.Second || w.VisibilityTimeout > 12*time.Hour):
		return errors.New("worker: VisibilityTimeout must be from 1s to 12h")
	case w.AckBatch < 1 || w.AckBatch > maxBatch:
		return fmt.Errorf("worker: AckBatch must be from 1 to %d", maxBatch)
	}
	return nil
}
