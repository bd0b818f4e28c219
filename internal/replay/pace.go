package replay

import (
	"sync"
	"time"
)

const (
	firstBatch = 100
	maxBatch   = 1000

	// A batch is one transaction that holds locks and that a cancel waits for, so it is kept short: it grows while it
	// takes less than quick and shrinks when it takes more than slow.
	quick = 100 * time.Millisecond
	slow  = 400 * time.Millisecond

	// ticksPerSecond spreads a paced run over each second.
	ticksPerSecond = 10

	// burst is how much of a lost time may be caught up, so that short delays between steps do not lower the rate.
	burst = 2 * time.Second
)

// pace decides the size of a run's batches: by a token bucket, and by how long the last ones took.
type pace struct {
	mu sync.Mutex
	// used is guarded by the engine's lock, everything else by mu.
	used time.Time

	batch  int
	rate   int
	tokens float64
	// filled is the time up to which tokens were handed out; zero before the first.
	filled time.Time
}

func newPace() *pace { return &pace{batch: firstBatch} }

// next returns how many letters to move now, or, when that is 0, how long to wait. rate is per second, 0 for no limit.
func (p *pace) next(now time.Time, rate int) (int, time.Duration) {
	p.fill(now, rate)
	if rate <= 0 {
		return p.batch, 0
	}
	want := max(1, min(p.batch, rate/ticksPerSecond))
	if p.tokens < float64(want) {
		missing := (float64(want) - p.tokens) / float64(rate)
		return 0, time.Duration(missing*float64(time.Second)) + time.Microsecond
	}
	return min(p.batch, int(p.tokens)), 0
}

// fill adds the tokens of the time since the last call, at the rate that held then. A bucket starts empty: the letters
// moved since then never exceed rate times time.
func (p *pace) fill(now time.Time, rate int) {
	if p.rate > 0 && !p.filled.IsZero() {
		p.tokens += now.Sub(p.filled).Seconds() * float64(p.rate)
	}
	if rate != p.rate && p.rate <= 0 {
		p.tokens = 0
	}
	p.rate, p.filled = rate, now
	p.tokens = min(p.tokens, max(1, float64(rate)*burst.Seconds()))
}

// moved records a batch. Only letters that went back to work count against the rate.
func (p *pace) moved(batch int, replayed int64, took time.Duration) {
	if p.rate > 0 {
		p.tokens -= float64(min(max(replayed, 0), int64(batch)))
	}
	switch {
	case took > slow:
		p.batch = max(1, min(p.batch, batch)/2)
	case took < quick && batch == p.batch:
		p.batch = min(maxBatch, p.batch*2)
	}
}

// failed records a batch with an unknown end: it may have been moved, so it is paid for, and the next one is smaller in
// case it was too large.
func (p *pace) failed(batch int) {
	if p.rate > 0 {
		p.tokens -= float64(batch)
	}
	p.batch = max(1, p.batch/2)
}
