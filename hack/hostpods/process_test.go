package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sh starts a shell script whose output goes to out.
func sh(t *testing.T, out io.Writer, script string) *process {
	t.Helper()

	p, err := start([]string{"/bin/sh", "-c", script}, []string{"GREETING=hello"}, "/", out)
	if err != nil {
		t.Fatal(err)
	}

	return p
}

func TestProcessHasItsEnvironmentAndAPrefix(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer

	p := sh(t, (&lines{out: &out}).from("shop/api"),
		`echo "$GREETING"; printf 'two\nlines\n'; echo "home ${HOME-unset}"; exit 3`)
	<-p.exited

	want := "[shop/api] hello\n[shop/api] two\n[shop/api] lines\n[shop/api] home unset\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}

	if p.code != 3 {
		t.Errorf("the exit code is %d, want 3", p.code)
	}
}

// started waits for the script to create a file.
func started(t *testing.T, path string) {
	t.Helper()

	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if _, err := os.Stat(path); err == nil {
			return
		}

		pause(t.Context(), 5*time.Millisecond)
	}

	t.Fatal("the process did not start")
}

func TestStopLetsTheProcessFinish(t *testing.T) {
	t.Parallel()

	ready := filepath.Join(t.TempDir(), "ready")
	p := sh(t, io.Discard, `trap 'exit 7' TERM; : >`+ready+`; while :; do sleep 0.02; done`)
	started(t, ready)
	p.stop(30 * time.Second)

	if p.code != 7 {
		t.Errorf("the exit code is %d, want 7", p.code)
	}
}

func TestStopKillsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()

	ready := filepath.Join(t.TempDir(), "ready")
	p := sh(t, io.Discard, `trap '' TERM; : >`+ready+`; while :; do sleep 0.02; done`)
	started(t, ready)
	p.stop(50 * time.Millisecond)

	if p.code != 128+9 {
		t.Errorf("the exit code is %d, want 137", p.code)
	}
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	t.Parallel()

	if _, err := start([]string{filepath.Join(t.TempDir(), "missing")}, nil, "/", io.Discard); err == nil {
		t.Error("a missing program was started")
	}
}
