package coalesce

import (
	"context"
	"sync"
)

// Options tell how a Group gathers.
type Options[In any] struct {
	// Weight is what one call adds to its flush, not below zero; nil counts each call as 1.
	Weight func(in In) int

	// Retry says of the error of a flush of several calls whether each of them is to be run again alone, so that one bad
	// call does not fail the others. It must be false where the flush may have had an effect that must not come twice.
	// A panic of flush comes as a PanicError. Nil: never.
	Retry func(err error) bool

	// MaxWeight bounds the weight of one flush; a heavier call goes alone. 0: no bound.
	MaxWeight int

	// InFlight is how many flushes of one key may be under way at once. Less than 1: one.
	InFlight int
}

// Group runs many calls as few: while a flush of a key is under way, calls for that key gather, and then go together,
// in the order in which they came. Each flush is run by one of its own callers; only to run calls again alone is a
// goroutine started. A key with no call takes no memory.
type Group[K comparable, In, Out any] struct {
	flush   func(ctx context.Context, key K, calls []In) ([]Out, error)
	options Options[In]

	// calls and batches keep what has been used for the next to come, so that a call allocates nothing.
	calls   sync.Pool
	batches sync.Pool

	// mu guards the lines of all keys, the flushes of which take ten thousand times as long as it is held.
	mu    sync.Mutex
	lines map[K]*line[In, Out]
	// emptied are some lines to use again.
	emptied []*line[In, Out]
}

// maxEmptied bounds the lines kept to be used again.
const maxEmptied = 64

// New returns a Group that runs its calls by flush, which answers all of them, in their order, or returns an error that
// goes to all of them.
//
// The context of flush belongs to none of the callers: it has no values and does not end, so flush bounds its own time.
// The slice of calls is used again after flush has returned. A flush that panics has failed with a PanicError: whoever
// happens to run it is no more to blame than the others in it.
func New[K comparable, In, Out any](
	options Options[In], flush func(ctx context.Context, key K, calls []In) ([]Out, error),
) *Group[K, In, Out] {
	options.InFlight = max(options.InFlight, 1)
	return &Group[K, In, Out]{flush: flush, options: options, lines: make(map[K]*line[In, Out])}
}

// Do runs in as one of the calls of a flush of the key, and returns its answer. A call whose ctx ends before a flush
// has taken it is withdrawn and never run. Once taken it runs whatever happens to ctx; Do then still returns early with
// ctx.Err(), except where it runs the flush itself.
func (g *Group[K, In, Out]) Do(ctx context.Context, key K, in In) (Out, error) {
	if err := ctx.Err(); err != nil {
		var none Out
		return none, err
	}
	c := g.newCall(ctx, in)
	g.mu.Lock()
	l := g.lineOf(key)
	if l.flushing == g.options.InFlight {
		l.push(c)
		g.mu.Unlock()
		return g.wait(key, l, c)
	}
	// Nobody waits where a flush may start: whoever ends one lets the next begin.
	l.flushing++
	g.mu.Unlock()
	return g.lead(key, l, g.newBatch(c))
}

// wait waits for the answer to c, or for its turn to run a flush itself.
func (g *Group[K, In, Out]) wait(key K, l *line[In, Out], c *call[In, Out]) (Out, error) {
	select {
	case <-c.ctx.Done():
	case s := <-c.wake:
		if s == answered {
			return g.answerOf(c)
		}
	}
	g.mu.Lock()
	if err := c.ctx.Err(); err != nil {
		g.withdraw(key, l, c)
		g.mu.Unlock()
		return g.giveUp(c, err)
	}
	b := g.newBatch(c)
	l.fill(b, g.options.MaxWeight)
	g.mu.Unlock()
	return g.lead(key, l, b)
}

// withdraw takes c out of the line, unless a flush has taken it; the Group is locked.
func (g *Group[K, In, Out]) withdraw(key K, l *line[In, Out], c *call[In, Out]) {
	switch c.stage {
	case waiting:
		l.remove(c)
	case leading:
		g.passOn(key, l)
	default:
	}
}

// giveUp returns err, unless the answer to c came at the same time. c is left to the garbage collector: the flush that
// has taken it may have yet to answer it.
func (g *Group[K, In, Out]) giveUp(c *call[In, Out], err error) (Out, error) {
	select {
	case s := <-c.wake:
		if s == answered {
			return g.answerOf(c)
		}
	default:
	}
	var none Out
	return none, err
}

// passOn gives the place of a flush that has ended to the first call that waits; the Group is locked.
func (g *Group[K, In, Out]) passOn(key K, l *line[In, Out]) {
	if c := l.pop(); c != nil {
		c.stage = leading
		c.wake <- leading
		return
	}
	l.flushing--
	if l.flushing == 0 {
		delete(g.lines, key)
		if len(g.emptied) < maxEmptied {
			g.emptied = append(g.emptied, l)
		}
	}
}

// lineOf returns the line of the key; the Group is locked.
func (g *Group[K, In, Out]) lineOf(key K) *line[In, Out] {
	if l, ok := g.lines[key]; ok {
		return l
	}
	var l *line[In, Out]
	if last := len(g.emptied) - 1; last >= 0 {
		l, g.emptied = g.emptied[last], g.emptied[:last]
	} else {
		l = &line[In, Out]{}
	}
	g.lines[key] = l
	return l
}

func (g *Group[K, In, Out]) newCall(ctx context.Context, in In) *call[In, Out] {
	weight := 1
	if g.options.Weight != nil {
		weight = max(g.options.Weight(in), 0)
	}
	c, ok := g.calls.Get().(*call[In, Out])
	if !ok {
		c = &call[In, Out]{wake: make(chan stage, 1)}
	}
	c.ctx, c.in, c.weight = ctx, in, weight
	return c
}

func (g *Group[K, In, Out]) newBatch(first *call[In, Out]) *batch[In, Out] {
	b, ok := g.batches.Get().(*batch[In, Out])
	if !ok {
		b = &batch[In, Out]{}
	}
	b.add(first)
	return b
}

// answerOf returns the answer to c, which nobody else looks at any more.
func (g *Group[K, In, Out]) answerOf(c *call[In, Out]) (Out, error) {
	out, err := c.out, c.err
	*c = call[In, Out]{wake: c.wake}
	g.calls.Put(c)
	return out, err
}
