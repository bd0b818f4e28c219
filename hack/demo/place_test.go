package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// quiet is a printer whose output can be read.
func quiet(t *testing.T) (*printer, func() string) {
	t.Helper()

	path := filepath.Join(t.TempDir(), "out")

	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { file.Close() })

	return newPrinter(file), func() string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}

		return string(content)
	}
}

func TestPlaceIsForOneDemoAtATime(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	out, _ := quiet(t)

	_, release, err := open(t.Context(), root, "run", out)
	if err != nil {
		t.Fatal(err)
	}

	impatient, cancel := context.WithCancel(t.Context())
	cancel()

	if _, _, err := open(impatient, root, "run", out); !errors.Is(err, context.Canceled) {
		t.Errorf("the second demo got %v", err)
	}

	_, releaseOther, err := open(t.Context(), root, "up", out)
	if err != nil {
		t.Errorf("another place: %v", err)
	}

	releaseOther()
	release()
	release()

	_, releaseAgain, err := open(t.Context(), root, "run", out)
	if err != nil {
		t.Fatalf("after the first demo: %v", err)
	}

	releaseAgain()
}

func TestPlaceStopsWhatItRecords(t *testing.T) {
	t.Parallel()

	p := &place{root: t.TempDir()}
	p.dir = filepath.Join(p.root, "run")

	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}

	started, err := spawn(operatorName, p.log(operatorName), nil, "/bin/sleep", "600")
	if err != nil {
		t.Fatal(err)
	}

	for _, edit := range []func(*state){
		func(s *state) { s.Processes = append(s.Processes, started) },
		func(s *state) { s.Ready = true },
	} {
		if err := p.change(edit); err != nil {
			t.Fatal(err)
		}
	}

	found, err := p.load()
	if diff := cmp.Diff(&state{Processes: []process{started}, Ready: true}, found); diff != "" || err != nil {
		t.Fatal(diff, err)
	}

	if !found.complete() {
		t.Error("what runs is not complete")
	}

	if err := p.stop(); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(p.dir); !os.IsNotExist(err) || started.alive() {
		t.Errorf("something is left: %v", err)
	}

	if found.complete() {
		t.Error("what has ended is complete")
	}

	if err := p.stop(); err != nil {
		t.Errorf("stopping nothing: %v", err)
	}
}

// Whoever starts again after a crash learns what is lost by it, before it is.
func TestUpTakesNothingAwayUnasked(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	p := &place{root: root, dir: filepath.Join(root, ".cache", "demo", "up")}

	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}

	err := p.change(func(s *state) {
		s.Processes = []process{{Name: operatorName, PID: os.Getpid(), Started: "another time"}}
		s.Ready = true
	})
	if err != nil {
		t.Fatal(err)
	}

	out, _ := quiet(t)
	if err := up(t.Context(), root, out); err == nil || !strings.Contains(err.Error(), "the operator ended") ||
		!strings.Contains(err.Error(), "make down") {
		t.Errorf("a start over what has crashed says %v", err)
	}

	if _, err := os.Stat(p.stateFile()); err != nil {
		t.Errorf("what there was is gone: %v", err)
	}

	if err := down(t.Context(), root, out); err != nil {
		t.Fatal(err)
	}

	if err := (&state{}).replaceable(); err != nil {
		t.Errorf("with nothing there: %v", err)
	}
}

func TestOutputOfCommandsIsIndented(t *testing.T) {
	t.Parallel()

	out, read := quiet(t)
	w := &indented{out: out}

	for _, part := range []string{"one\nt", "wo\n\nthr", "ee"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}

	w.end()
	out.check("%d lines", 4)
	out.check("no colours")

	want := "  one\n  two\n\n  three\n\n  ✓ 4 lines\n  ✓ no colours\n"
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Error(diff)
	}

	if strings.ContainsRune(read(), '\x1b') {
		t.Error("a file has colours")
	}
}

func TestDuringOutageFailsAsTheStorySays(t *testing.T) {
	t.Parallel()

	got := map[string]int{}
	retried := 0

	for number := 1; number <= orders; number++ {
		failed := duringOutage(order{Number: number, SKU: sku(number)}, 1)

		switch {
		case failed == nil:
			got["succeeded"]++
		case duringOutage(order{Number: number, SKU: sku(number)}, 2) == nil:
			retried++
			got["succeeded"]++
		default:
			got[failed.Category]++
		}
	}

	want := map[string]int{
		"succeeded": orders - dead, "VALIDATION": validation, "TIMEOUT": timeout, "EXTERNAL": external,
	}
	if diff := cmp.Diff(want, got); diff != "" || retried != flaky {
		t.Errorf("%s, %d succeed when they are retried", diff, retried)
	}
}
