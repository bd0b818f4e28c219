// Package progress tells a waiting person what is being done, which step it is and how long it has taken.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	terminalInterval = time.Second
	logInterval      = 15 * time.Second
)

// Printer writes progress lines; on a terminal it keeps rewriting the line of the running step.
type Printer struct {
	out      io.Writer
	terminal bool
}

// New returns a printer for the file.
func New(out *os.File) *Printer {
	info, err := out.Stat()

	return &Printer{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// Linef prints one line.
func (p *Printer) Linef(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)
}

// Step runs one step of several. The action may report a detail, such as a count, that is shown while it runs.
func (p *Printer) Step(number, total int, name string, action func(detail func(string)) error) error {
	var (
		mu     sync.Mutex
		detail string
	)

	start := time.Now()
	show := func(end string) {
		mu.Lock()
		defer mu.Unlock()

		p.show(fmt.Sprintf("[%d/%d] %s: %s%s", number, total, name, detail, time.Since(start).Round(time.Second/10)), end)
	}

	stop := p.every(func() { show("") })

	err := action(func(text string) {
		mu.Lock()
		defer mu.Unlock()

		detail = text + ", "
	})

	stop()

	if err != nil {
		show(" FAILED\n")

		return fmt.Errorf("%s: %w", name, err)
	}

	show(" done\n")

	return nil
}

// every calls show now and then until the returned function is called.
func (p *Printer) every(show func()) (stop func()) {
	interval := logInterval
	if p.terminal {
		interval = terminalInterval
	}

	done, finished := make(chan struct{}), make(chan struct{})

	go func() {
		defer close(finished)

		ticker := time.NewTicker(interval)
		defer ticker.Stop()

		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				show()
			}
		}
	}()

	return func() {
		close(done)
		<-finished
	}
}

// show prints a state of the running step; an empty end means that more states follow.
func (p *Printer) show(state, end string) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s%s", state, end)

		return
	}

	if end == "" {
		end = " ...\n"
	}

	fmt.Fprint(p.out, state+end)
}
