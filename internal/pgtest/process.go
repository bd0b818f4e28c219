package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is a postmaster, either a child of this process or found through its folder.
type process struct {
	pid    int
	layout layout
	// exited is closed when a child has been reaped; nil for a process that is not a child.
	exited chan struct{}
}

// startProcess runs the server with its output in the folder's log.
func startProcess(account account, place layout, bin string, options Options, port int) (*process, error) {
	log, err := os.OpenFile(place.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	cmd := command(account, place.dir, bin, "postgres", options.arguments(place.data(), place.dir, port)...)
	cmd.Stdout, cmd.Stderr = log, log

	if err := cmd.Start(); err != nil {
		return nil, err
	}

	started := &process{pid: cmd.Process.Pid, layout: place, exited: make(chan struct{})}

	go func() {
		defer close(started.exited)
		// The exit status carries nothing: the log says why a server ended.
		_ = cmd.Wait()
	}()

	return started, nil
}

// runningIn finds the server that holds the folder's lock file, or nil.
func runningIn(place layout) *process {
	content, err := os.ReadFile(place.postmaster())
	if err != nil {
		return nil
	}

	first, _, _ := strings.Cut(string(content), "\n")

	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return nil
	}

	found := &process{pid: pid, layout: place}
	if !found.alive() {
		return nil
	}

	return found
}

// alive reports whether the process still exists. A process that is not a child must also still serve the folder,
// since its id may have gone to a stranger.
func (p *process) alive() bool {
	if p.exited != nil {
		select {
		case <-p.exited:
			return false
		default:
			return true
		}
	}

	return strings.Contains(commandLine(p.pid), p.layout.data())
}

func (p *process) signal(signal syscall.Signal) error {
	if !p.alive() {
		return nil
	}

	if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal Postgres process %d: %w", p.pid, err)
	}

	return nil
}

// kill ends the postmaster and its children with SIGKILL. The postmaster is stopped first, so that it can neither
// start new children nor react to the deaths of the old ones.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}

	offspring, err := children(p.pid)

	for _, pid := range offspring {
		if failure := syscall.Kill(pid, syscall.SIGKILL); failure != nil && !errors.Is(failure, syscall.ESRCH) {
			err = errors.Join(err, failure)
		}
	}

	if err := errors.Join(err, p.signal(syscall.SIGKILL)); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()

	return wait(ctx, func() bool { return !p.alive() })
}

// commandLine returns a process's arguments, or nothing when it has ended.
func commandLine(pid int) string {
	if content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return string(bytes.ReplaceAll(content, []byte{0}, []byte{' '}))
	}

	if _, err := os.Stat("/proc/self"); err == nil {
		return ""
	}

	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}

	return string(out)
}

// children lists the direct children of a process. Postgres backends leave the process group, so only their parent
// identifies them.
func children(parent int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return childrenByPS(parent)
	}

	var found []int

	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}

		// The program's name, in parentheses, may itself contain spaces and parentheses.
		_, rest, ok := strings.Cut(string(content[bytes.LastIndexByte(content, ')')+1:]), " ")
		fields := strings.Fields(rest)

		if !ok || len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}

		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found = append(found, pid)
		}
	}

	return found, nil
}

func childrenByPS(parent int) ([]int, error) {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}

	var found []int

	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err == nil && ppid == parent {
			found = append(found, pid)
		}
	}

	return found, nil
}
