package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is one that outlives the call that started it, identified beyond the reuse of its id.
type process struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// spawn starts a program in a session of its own, so that neither a closed terminal nor Ctrl-C reaches it.
func spawn(name, log string, env []string, program string, args ...string) (process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return process{}, err
	}
	defer file.Close()

	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	if err := cmd.Start(); err != nil {
		return process{}, err
	}

	started := process{Name: name, PID: cmd.Process.Pid, Started: startTime(cmd.Process.Pid)}

	// Without this, a process that has ended would look as if it still ran.
	go func() { _ = cmd.Wait() }()

	return started, nil
}

// alive reports whether this very process still runs.
func (p process) alive() bool { return p.Started != "" && startTime(p.PID) == p.Started }

// stopGrace is more than a draining pod takes.
const stopGrace = 20 * time.Second

// stop asks the process to end, and kills it if it does not.
func (p process) stop() error { return p.stopWithin(stopGrace) }

func (p process) stopWithin(grace time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !p.alive() {
			return nil
		}

		if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s: %w", p.Name, err)
		}

		if p.endsWithin(grace) {
			return nil
		}
	}

	return fmt.Errorf("stop %s: process %d survives SIGKILL", p.Name, p.PID)
}

func (p process) endsWithin(limit time.Duration) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()

	for deadline := time.Now().Add(limit); p.alive(); <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}

	return true
}

// startTime tells when a process started, in whatever unit, or nothing when it has ended.
func startTime(pid int) string {
	// The fields after the program's name, which may itself hold spaces and parentheses.
	const state, started = 0, 19

	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}

	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) <= started || fields[state] == "Z" {
		return ""
	}

	return fields[started]
}
