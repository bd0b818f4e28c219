package coalesce

import "context"

// stage is how far a call has come.
type stage int

const (
	// waiting: in its line.
	waiting stage = iota
	// leading: its caller has been woken to run the next flush.
	leading
	// taken: part of a flush.
	taken
	// withdrawn: out of its line for good, because its ctx has ended.
	withdrawn
	// answered is only sent, never a stage: the answer is there to read.
	answered
)

// call is one Do under way.
type call[In, Out any] struct {
	// ctx is looked at when a flush takes the call: its end may come before its caller has noticed.
	ctx    context.Context //nolint:containedctx // A call is an argument on its way from one goroutine to another.
	in     In
	weight int

	out Out
	err error

	// wake is sent to at most once: leading or answered.
	wake       chan stage
	stage      stage
	prev, next *call[In, Out]
}

// line is the calls of one key that wait, in the order in which they came. The Group's mutex guards it.
type line[In, Out any] struct {
	first, last *call[In, Out]

	// flushing counts the flushes under way, with those whose leader has yet to wake.
	flushing int
}

func (l *line[In, Out]) push(c *call[In, Out]) {
	c.prev = l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.next = c
	}
	l.last = c
}

func (l *line[In, Out]) remove(c *call[In, Out]) {
	if c.prev == nil {
		l.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}

// head returns the first call still wanted, and drops those before it whose ctx has ended.
func (l *line[In, Out]) head() *call[In, Out] {
	for l.first != nil && l.first.ctx.Err() != nil {
		l.first.stage = withdrawn
		l.remove(l.first)
	}
	return l.first
}

// pop takes the first call still wanted out of the line; nil if there is none.
func (l *line[In, Out]) pop() *call[In, Out] {
	c := l.head()
	if c != nil {
		l.remove(c)
	}
	return c
}

// fill adds calls to the batch as long as its weight stays within maxWeight, if that is not 0.
func (l *line[In, Out]) fill(b *batch[In, Out], maxWeight int) {
	room := maxWeight - b.calls[0].weight
	for c := l.head(); c != nil; c = l.head() {
		if maxWeight > 0 && c.weight > room {
			return
		}
		room -= c.weight
		l.remove(c)
		c.stage = taken
		b.add(c)
	}
}
