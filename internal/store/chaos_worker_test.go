package store_test

import (
	"context"
	"math/rand/v2"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// worker is who has claimed a few messages of a queue.
type worker struct {
	*chaos

	queue string
	r     *rand.Rand
}

// work claims messages and does with each something that a worker may do, or may not.
func (c *chaos) work(ctx context.Context, r *rand.Rand) {
	w := worker{chaos: c, queue: pick(r, chaosQueues), r: r}
	var finished, failed []message.Message
	for _, m := range w.claim(ctx) {
		switch die := r.IntN(100); {
		case die < 66:
			finished = append(finished, m)
		case die < 78:
			failed = append(failed, m)
		case die < 84:
			w.release(ctx, m)
		case die < 90:
			if w.extend(ctx, m) {
				finished = append(finished, m)
			}
		case die < 96:
			w.cheat(ctx, m)
			finished = append(finished, m)
		default: // Nobody hears of it again until its lease ends.
		}
	}
	w.succeed(ctx, finished)
	w.fail(ctx, failed)
}

func (w worker) claim(ctx context.Context) []message.Message {
	claimed, err := w.any(w.r).Claim(ctx, w.queue, store.ClaimParams{
		Max: 1 + w.r.IntN(20), VisibilityTimeout: time.Duration(1000+w.r.IntN(1500)) * time.Millisecond,
	})
	if w.ledger.failed("claim", err) {
		return nil
	}
	w.ledger.claimed(w.queue, claimed)
	return claimed
}

func (w worker) succeed(ctx context.Context, finished []message.Message) {
	w.ledger.givenUp(finished)
	settled, err := w.any(w.r).Succeed(ctx, w.queue, refs(finished))
	if w.ledger.failed("succeed", err) {
		w.ledger.mayHaveSucceeded(finished)
		return
	}
	for i, m := range finished {
		switch err := settled[i].Err; {
		case isRefusal(err):
			w.ledger.refused("succeed", m, err)
		case w.ledger.failed("succeed", err):
			w.ledger.mayHaveSucceeded(finished[i : i+1])
		default:
			w.ledger.succeeded(m)
		}
	}
}

func (w worker) fail(ctx context.Context, failed []message.Message) {
	failures := make([]store.FailedLease, len(failed))
	for i, ref := range refs(failed) {
		failures[i] = store.FailedLease{
			LeaseRef: ref, Report: message.Report{Reason: "boom", Permanent: w.r.IntN(10) == 0},
		}
	}
	w.ledger.givenUp(failed)
	settled, err := w.any(w.r).Fail(ctx, w.queue, failures)
	if w.ledger.failed("fail", err) {
		return
	}
	for i, m := range failed {
		w.judge("fail", m, settled[i].Err)
	}
}

// release hands a message back, and tries its lease again: that is over.
func (w worker) release(ctx context.Context, m message.Message) {
	ref := store.LeaseRef{ID: m.ID, Token: m.Lease.Token}
	w.ledger.givenUp([]message.Message{m})
	if _, err := w.any(w.r).Release(ctx, w.queue, ref, 0); !w.judge("release", m, err) {
		return
	}
	_, err := w.any(w.r).Extend(ctx, w.queue, ref, time.Minute)
	w.wantRefusal("extend after release", m, err)
}

// extend reports whether the message is still the worker's.
func (w worker) extend(ctx context.Context, m message.Message) bool {
	ref := store.LeaseRef{ID: m.ID, Token: m.Lease.Token}
	extended, err := w.any(w.r).Extend(ctx, w.queue, ref, time.Duration(1000+w.r.IntN(1000))*time.Millisecond)
	if !w.judge("extend", m, err) {
		// It may have been made shorter.
		w.ledger.givenUp([]message.Message{m})
		return false
	}
	w.ledger.extended(extended)
	*m.Lease = *extended.Lease
	return true
}

// cheat tries a token that nobody was given.
func (w worker) cheat(ctx context.Context, m message.Message) {
	token := []byte(m.Lease.Token)
	last := &token[len(token)-1]
	if *last == '0' {
		*last = '1'
	} else {
		*last = '0'
	}
	ref := store.LeaseRef{ID: m.ID, Token: string(token)}
	settled, err := w.any(w.r).Succeed(ctx, w.queue, []store.LeaseRef{ref})
	if err == nil {
		err = settled[0].Err
	}
	w.wantRefusal("succeed with a wrong token", m, err)
}

// judge reports whether a call on a lease did what it should.
func (w worker) judge(what string, m message.Message, err error) bool {
	if isRefusal(err) {
		w.ledger.refused(what, m, err)
		return false
	}
	return !w.ledger.failed(what, err)
}

func (w worker) wantRefusal(what string, m message.Message, err error) {
	switch {
	case err == nil:
		w.ledger.wrong("%s: accepted for message %d", what, m.ID)
	case !isRefusal(err):
		w.ledger.failed(what, err)
	}
}
