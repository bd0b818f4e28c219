package report

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressIsNeverSilent(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	progress := NewProgress(writer, 20*time.Millisecond)
	defer progress.Stop()
	go progress.Step("counting %d sheep", 3)
	for _, want := range []string{"counting 3 sheep", "… counting 3 sheep", "… counting 3 sheep"} {
		line := make([]byte, 200)
		n, err := reader.Read(line)
		if err != nil || !strings.HasSuffix(string(line[:n]), "s  "+want+"\n") {
			t.Fatalf("got %q, %v, want %q", line[:n], err, want)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
}
