package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// controlPlaneTool runs hack/controlplane, whose first run builds Kubernetes; its progress is shown then.
func (e *environment) controlPlaneTool(ctx context.Context, args ...string) (string, error) {
	tool := append([]string{"run", "-C", filepath.Join(e.place.root, "hack", "controlplane"), "."}, args...)
	cmd := exec.CommandContext(ctx, "go", tool...)
	progress := &lateWriter{out: os.Stderr, after: time.Now().Add(lateAfter)}
	cmd.Stderr = progress

	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, progress.held.Bytes())
	}

	return strings.TrimSpace(string(out)), nil
}

// lateAfter is how long the control plane may take before its progress is worth showing.
const lateAfter = 20 * time.Second

// lateWriter holds back what is written until it has taken long enough to be of interest.
type lateWriter struct {
	out   *os.File
	after time.Time
	held  bytes.Buffer
	begun bool
}

// Write passes everything on once the time has come.
func (w *lateWriter) Write(content []byte) (int, error) {
	w.held.Write(content)

	if time.Now().Before(w.after) {
		return len(content), nil
	}

	if !w.begun {
		// The step's own line is not at its end yet.
		fmt.Fprintln(w.out)

		w.begun = true
	}

	if _, err := w.held.WriteTo(w.out); err != nil {
		return 0, err
	}

	return len(content), nil
}

func (e *environment) startControlPlane(ctx context.Context) error {
	if err := e.place.change(func(s *state) { s.ControlPlane = true }); err != nil {
		return err
	}

	if _, err := e.controlPlaneTool(ctx, "up", "--dir", e.place.controlPlane()); err != nil {
		return err
	}

	// kubectl is there unless a suitable one is installed.
	assets, err := e.controlPlaneTool(ctx, "assets")
	if err != nil {
		return err
	}

	e.path = assets

	return e.place.change(func(s *state) { s.Path = assets })
}
