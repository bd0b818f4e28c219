package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// interruptWait is how long handlers have to return once they are interrupted.
	interruptWait = 5 * time.Second
	// flushWait is how long the last outcomes and the messages to give back have to reach the API.
	flushWait = 10 * time.Second
	// givingBack is how many messages are given back at a time.
	givingBack = 16
)

// run is one run of a worker.
type run struct {
	*Worker

	c    *Client
	log  *slog.Logger
	gate *gate
	// work are messages that are claimed and not started; room is how many more may be claimed.
	work chan *hold
	room *room
	acks *acks
	// abandon is closed when handlers are no longer waited for.
	abandon   chan struct{}
	abandoned atomic.Int64
}

func newRun(ctx context.Context, w *Worker) (*run, error) {
	log := w.Logger.With("queue", w.Queue)
	gate, err := newGate(ctx, w.Breaker, log)
	if err != nil {
		return nil, err
	}
	most := w.Concurrency + w.Prefetch
	return &run{
		Worker: w, c: w.Client, log: log, gate: gate,
		work: make(chan *hold, most), room: newRoom(most), acks: newAcks(w, log), abandon: make(chan struct{}),
	}, nil
}

// run starts everything, and ends it in order.
func (r *run) run(ctx context.Context) error {
	starting, stop := context.WithCancel(ctx)
	defer stop()
	// What is under way goes on after ctx has ended.
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	handling, interrupt := context.WithCancelCause(base)
	defer interrupt(nil)

	reported := make(chan struct{})
	go func() {
		defer close(reported)
		r.acks.run(base)
	}()
	handled := r.startHandlers(starting, base, handling)
	err := r.fetch(starting, base)
	stop()
	r.giveBackUnstarted(base)

	if !within(handled, r.ShutdownGrace) {
		interrupt(ErrShutdown)
		if !within(handled, interruptWait) {
			close(r.abandon)
		}
	}
	defer time.AfterFunc(flushWait, end).Stop()
	<-handled
	close(r.acks.in)
	<-reported
	if left := r.abandoned.Load(); left > 0 {
		err = errors.Join(err, fmt.Errorf("worker: %d handlers did not return when they were interrupted", left))
	}
	return err
}

// within reports whether something is done before a time has passed.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// startHandlers starts as many goroutines as there may be handlers. The channel is closed when all have ended, which
// they do when there is no work any more.
func (r *run) startHandlers(starting, base, handling context.Context) <-chan struct{} {
	var pool sync.WaitGroup
	for range r.Concurrency {
		pool.Go(func() {
			for h := range r.work {
				if starting.Err() != nil {
					r.giveBack(base, h)
				} else {
					r.handle(base, handling, h)
				}
				r.room.give()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		pool.Wait()
		close(done)
	}()
	return done
}

// giveBackUnstarted gives back what was claimed and not started, while handlers are still at work.
func (r *run) giveBackUnstarted(ctx context.Context) {
	var group sync.WaitGroup
	for range min(givingBack, len(r.work)) {
		group.Go(func() {
			for h := range r.work {
				r.giveBack(ctx, h)
			}
		})
	}
	group.Wait()
}

// giveBack releases a message. What cannot be released comes back when its lease ends.
func (r *run) giveBack(ctx context.Context, h *hold) {
	defer h.end()
	if h.isLost() {
		return
	}
	if _, err := r.c.Release(ctx, h.m.Lease(), 0); err != nil {
		r.log.WarnContext(ctx, "a message could not be given back; it comes back when its lease ends",
			"message_id", h.m.ID, "error", err)
	}
}

// room counts how many messages may be claimed.
type room struct {
	mu   sync.Mutex
	free int
	// freed has an element when there may be room again.
	freed chan struct{}
}

func newRoom(size int) *room { return &room{free: size, freed: make(chan struct{}, 1)} }

// wait returns how much room there is, once there is any; 0 when ctx ends before.
func (r *room) wait(ctx context.Context) int {
	for {
		r.mu.Lock()
		free := r.free
		r.mu.Unlock()
		if free > 0 && ctx.Err() == nil {
			return free
		}
		select {
		case <-r.freed:
		case <-ctx.Done():
			return 0
		}
	}
}

func (r *room) take(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free -= n
}

func (r *room) give() {
	r.mu.Lock()
	r.free++
	r.mu.Unlock()
	select {
	case r.freed <- struct{}{}:
	default:
	}
}
