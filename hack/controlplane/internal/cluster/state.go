package cluster

import (
	"errors"
	"slices"

	"deadletter.dev/deadletter/hack/controlplane/internal/progress"
)

// state is what a folder's state.json records.
type state struct {
	Ports ports `json:"ports"`
	// Processes are in the order of their start.
	Processes []process `json:"processes"`
}

// complete reports whether every component's process is alive.
func (s *state) complete() bool {
	for _, name := range componentNames {
		if !slices.ContainsFunc(s.Processes, func(p process) bool { return p.Name == name && p.alive() }) {
			return false
		}
	}

	return true
}

// stop ends the recorded processes, last started first, and forgets them.
func (s *state) stop(out *progress.Printer) error {
	var failures []error

	for _, process := range slices.Backward(s.Processes) {
		if !process.alive() {
			continue
		}

		out.Linef("stop %s", process.Name)

		failures = append(failures, process.stop())
	}

	if err := errors.Join(failures...); err != nil {
		return err
	}

	s.Processes = nil

	return nil
}
