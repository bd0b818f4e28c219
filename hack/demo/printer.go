package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// printer writes the story.
type printer struct {
	out    *os.File
	colour bool
	// close is set after output that a check is not to stick to.
	close bool
}

func newPrinter(out *os.File) *printer {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"

	return &printer{out: out, colour: terminal && os.Getenv("NO_COLOR") == ""}
}

// The colours of a terminal.
const (
	bold  = "1"
	faint = "2"
	green = "32"
	cyan  = "36"
)

func (p *printer) paint(colour, text string) string {
	if !p.colour || text == "" {
		return text
	}

	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

const width = 100

// heading begins a chapter.
func (p *printer) heading(title string) {
	text := "━━ " + title + " "
	fmt.Fprintln(p.out, "\n"+p.paint(bold, text+strings.Repeat("━", max(0, width-len([]rune(text))))))
}

// say explains.
func (p *printer) say(format string, args ...any) {
	fmt.Fprintf(p.out, format+"\n", args...)

	p.close = true
}

// line shows a line of output.
func (p *printer) line(text []byte) {
	if len(text) > 0 {
		fmt.Fprintf(p.out, "  %s", text)
	}

	fmt.Fprintln(p.out)

	p.close = true
}

// command shows a command before it is run.
func (p *printer) command(text string) {
	fmt.Fprintln(p.out, "\n  "+p.paint(cyan, "$ "+strings.ReplaceAll(text, "\n", "\n  ")))
}

// check says that something was as it had to be.
func (p *printer) check(format string, args ...any) {
	if p.close {
		fmt.Fprintln(p.out)
	}

	p.close = false

	fmt.Fprintln(p.out, "  "+p.paint(green, "✓ "+fmt.Sprintf(format, args...)))
}

// step says what is done before it is done, and how long it took.
func (p *printer) step(name string, action func() error) error {
	fmt.Fprintf(p.out, "  %-62s ", name)

	began := time.Now()
	quiet := p.dots()
	err := action()

	quiet()
	if err != nil {
		fmt.Fprintln(p.out, "failed")

		return fmt.Errorf("%s: %w", name, err)
	}

	fmt.Fprintln(p.out, p.paint(faint, round(time.Since(began)).String()))

	return nil
}

// dots shows that a step is still at work, until it is told to stop.
func (p *printer) dots() (stop func()) {
	done := make(chan struct{})

	var group sync.WaitGroup

	group.Go(func() {
		ticker := time.NewTicker(10 * time.Second)
		defer ticker.Stop()

		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprint(p.out, ".")
			}
		}
	})

	return func() {
		close(done)
		group.Wait()
	}
}

// round keeps what is of interest.
func round(span time.Duration) time.Duration {
	if span < time.Second {
		return span.Round(time.Millisecond)
	}

	return span.Round(100 * time.Millisecond)
}

// indented writes the output of a command.
type indented struct {
	out  *printer
	rest []byte
}

// Write prints what has become a complete line.
func (w *indented) Write(content []byte) (int, error) {
	w.rest = append(w.rest, content...)

	for {
		line, rest, found := bytes.Cut(w.rest, []byte{'\n'})
		if !found {
			return len(content), nil
		}

		w.out.line(line)
		w.rest = rest
	}
}

// end prints a last line that has no end.
func (w *indented) end() {
	if len(w.rest) > 0 {
		w.out.line(w.rest)
	}
}
