package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process identifies a process beyond the reuse of its id.
type process struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// Started is the start time as the system reports it, in whatever unit: it is only compared.
	Started string `json:"started"`
}

// spawn starts a program in a session of its own, so that it outlives the caller and its terminal.
func spawn(path string, args []string, dir, logPath string) (process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return process{}, err
	}
	defer log.Close()

	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	if err := cmd.Start(); err != nil {
		return process{}, err
	}

	started := process{Name: filepath.Base(path), PID: cmd.Process.Pid, Started: startTime(cmd.Process.Pid)}

	go func() {
		// Reaping lets alive see an early end; the log holds the reason.
		_ = cmd.Wait()
	}()

	return started, nil
}

// alive reports whether this very process still runs.
func (p process) alive() bool {
	return p.Started != "" && startTime(p.PID) == p.Started
}

// stop asks the process to end, and kills it when it takes too long.
func (p process) stop() error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !p.alive() {
			return nil
		}

		if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s: %w", p.Name, err)
		}

		if p.endsWithin(stopGrace) {
			return nil
		}
	}

	return fmt.Errorf("stop %s: process %d survives SIGKILL", p.Name, p.PID)
}

func (p process) endsWithin(limit time.Duration) bool {
	const interval = 20 * time.Millisecond

	ticker := time.NewTicker(interval)
	defer ticker.Stop()

	for timeout := time.After(limit); p.alive(); {
		select {
		case <-timeout:
			return false
		case <-ticker.C:
		}
	}

	return true
}

// startTime returns when a process started, or nothing when it has ended.
func startTime(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return startTimeFromStat(content)
	}

	if _, err := os.Stat("/proc/self"); err == nil {
		return ""
	}

	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}

	return strings.TrimSpace(string(out))
}

// startTimeFromStat reads the field that Linux counts in clock ticks since boot. A zombie counts as ended.
func startTimeFromStat(content []byte) string {
	// Positions after the program's name, which is in parentheses and may contain anything.
	const (
		stateField = 0
		startField = 19
	)

	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) <= startField || fields[stateField] == "Z" {
		return ""
	}

	return fields[startField]
}
