package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestProcessIsStoppedByItsIdentity(t *testing.T) {
	t.Parallel()

	log := filepath.Join(t.TempDir(), "log")

	started, err := spawn("sleeper", log, []string{"WORD=hello"}, "/bin/sh", "-c", "echo $WORD; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}

	if !started.alive() {
		t.Fatal("the process does not run")
	}

	stranger := process{Name: "stranger", PID: started.PID, Started: "another time"}
	if stranger.alive() {
		t.Error("a process with the id of another one is taken for it")
	}

	if err := stranger.stop(); err != nil || !started.alive() {
		t.Errorf("stopping a process that is gone has stopped another one (%v)", err)
	}

	await(t, func() bool {
		content, err := os.ReadFile(log)

		return err == nil && string(content) == "hello\n"
	})

	if err := started.stop(); err != nil || started.alive() {
		t.Errorf("the process still runs (%v)", err)
	}
}

// await waits until a condition holds.
func await(t *testing.T, condition func() bool) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	if err := until(ctx, func() (bool, error) { return condition(), nil }); err != nil {
		t.Fatal(err)
	}
}

func TestProcessIsKilledWhenItDoesNotListen(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")

	started, err := spawn("deaf", filepath.Join(dir, "log"), nil,
		"/bin/sh", "-c", "trap '' TERM; : >"+ready+"; while :; do sleep 0.05; done")
	if err != nil {
		t.Fatal(err)
	}

	await(t, func() bool {
		_, err := os.Stat(ready)

		return err == nil
	})

	if err := started.stopWithin(50 * time.Millisecond); err != nil || started.alive() {
		t.Errorf("the process still runs (%v)", err)
	}
}
