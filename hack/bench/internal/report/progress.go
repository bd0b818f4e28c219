package report

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress tells a person what goes on, and that something does.
type Progress struct {
	began time.Time
	stop  chan struct{}

	mu   sync.Mutex
	out  io.Writer
	last time.Time
	step string
}

// NewProgress begins to tell. Whenever nothing has been said for the interval, it says what was said last.
func NewProgress(out io.Writer, interval time.Duration) *Progress {
	p := &Progress{began: time.Now(), stop: make(chan struct{}), out: out, last: time.Now()}
	go p.beat(interval)
	return p
}

// Say writes a line.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(fmt.Sprintf(format, args...))
}

// Step writes a line that tells what begins, and is repeated as long as nothing else is said.
func (p *Progress) Step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = fmt.Sprintf(format, args...)
	p.write(p.step)
}

// Stop ends it.
func (p *Progress) Stop() { close(p.stop) }

func (p *Progress) write(line string) {
	p.last = time.Now()
	fmt.Fprintf(p.out, "%5.0fs  %s\n", time.Since(p.began).Seconds(), line)
}

func (p *Progress) beat(interval time.Duration) {
	ticker := time.NewTicker(interval / 4)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		if time.Since(p.last) >= interval {
			p.write("… " + p.step)
		}
		p.mu.Unlock()
	}
}
