package coalesce

import (
	"context"
	"errors"
)

// batch is the calls of one flush; the caller of the first of them leads it.
type batch[In, Out any] struct {
	calls []*call[In, Out]
	ins   []In

	// done counts the calls that have their answer, from the first on.
	done int
}

func (b *batch[In, Out]) add(c *call[In, Out]) {
	b.calls = append(b.calls, c)
	b.ins = append(b.ins, c.in)
}

// answer gives the next call without an answer its own. From then on the call is its caller's, who may be gone.
func (b *batch[In, Out]) answer(out Out, err error) {
	c := b.calls[b.done]
	c.out, c.err = out, err
	if b.done > 0 {
		c.wake <- answered
	}
	b.done++
}

// answerRest gives all calls without an answer the same error.
func (b *batch[In, Out]) answerRest(err error) {
	var none Out
	for b.done < len(b.calls) {
		b.answer(none, err)
	}
}

// reset lets go of everything that the batch refers to.
func (b *batch[In, Out]) reset() {
	clear(b.calls)
	clear(b.ins)
	b.calls, b.ins, b.done = b.calls[:0], b.ins[:0], 0
}

// lead runs the batch, the first call of which is the caller's own, and returns the answer to that.
func (g *Group[K, In, Out]) lead(key K, l *line[In, Out], b *batch[In, Out]) (Out, error) {
	own := b.calls[0]
	if err := g.run(key, l, b); err == nil {
		b.reset()
		g.batches.Put(b)
	}
	return g.answerOf(own)
}

// run answers the batch, or the first of it and leaves the rest to a goroutine, and returns the error of the flush: who
// got one may be keeping the slice of calls. Deferred, so that nobody is lost when flush ends the goroutine or Retry
// panics.
func (g *Group[K, In, Out]) run(key K, l *line[In, Out], b *batch[In, Out]) error {
	left := false
	defer func() {
		if !left {
			g.finish(key, l, b)
		}
	}()
	outs, err := g.attempt(key, b.ins)
	switch {
	case err == nil:
		for _, out := range outs {
			b.answer(out, nil)
		}
	case g.again(b, err):
		g.runNext(key, b)
		left = true
		// The leader has its answer and need not wait for the others'.
		go g.runRest(key, l, b)
	default:
		b.answerRest(err)
	}
	return err
}

// again says whether the calls of a flush that failed are to be run again alone.
func (g *Group[K, In, Out]) again(b *batch[In, Out], err error) bool {
	if len(b.calls) == 1 || g.options.Retry == nil {
		return false
	}
	if _, done := errors.AsType[*CountError](err); done {
		return false
	}
	return g.options.Retry(err)
}

// runRest runs the calls without an answer one by one.
func (g *Group[K, In, Out]) runRest(key K, l *line[In, Out], b *batch[In, Out]) {
	defer g.finish(key, l, b)
	for b.done < len(b.calls) {
		g.runNext(key, b)
	}
}

// runNext runs the next call without an answer alone.
func (g *Group[K, In, Out]) runNext(key K, b *batch[In, Out]) {
	outs, err := g.attempt(key, b.ins[b.done:b.done+1:b.done+1])
	if err != nil {
		outs = make([]Out, 1)
	}
	b.answer(outs[0], err)
}

// finish lets the next flush of the key begin. Only where the goroutine is ending are there still calls to answer.
func (g *Group[K, In, Out]) finish(key K, l *line[In, Out], b *batch[In, Out]) {
	b.answerRest(errGoroutineEnded)
	g.mu.Lock()
	g.passOn(key, l)
	g.mu.Unlock()
}

// attempt runs flush once.
func (g *Group[K, In, Out]) attempt(key K, ins []In) (outs []Out, err error) {
	defer func() {
		if value := recover(); value != nil {
			outs, err = nil, newPanicError(value)
		}
	}()
	//nolint:forbidigo // A flush belongs to none of its callers, and must not end with any of them.
	outs, err = g.flush(context.Background(), key, ins)
	if err == nil && len(outs) != len(ins) {
		return nil, &CountError{Calls: len(ins), Answers: len(outs)}
	}
	return outs, err
}
