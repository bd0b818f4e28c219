package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// lines writes whole lines of many writers to one.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) print(source, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()

	fmt.Fprintf(l.out, "[%s] %s\n", source, fmt.Sprintf(format, args...))
}

// from returns a writer whose lines are marked with their source.
func (l *lines) from(source string) *prefixed { return &prefixed{lines: l, source: source} }

// maxLine is where a line without an end is cut.
const maxLine = 64 << 10

type prefixed struct {
	lines  *lines
	source string
	rest   []byte
}

// Write prints the lines that are complete and keeps the rest for later.
func (p *prefixed) Write(content []byte) (int, error) {
	p.rest = append(p.rest, content...)

	for {
		line, rest, found := bytes.Cut(p.rest, []byte{'\n'})
		if !found && len(p.rest) < maxLine {
			return len(content), nil
		}

		p.lines.print(p.source, "%s", line)
		p.rest = append(p.rest[:0], rest...)
	}
}
