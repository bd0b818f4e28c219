package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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

// kill ends the postmaster and its children with SIGKILL and waits until all are gone, since the last of them still
// holds the shared memory that a restart needs. The postmaster is stopped first, so that it can neither start new
// children nor react to the deaths of the old ones.
func (p *process) kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()

	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}

	if err := wait(ctx, func() bool { return !p.alive() || stopped(p.pid) }); err != nil {
		return fmt.Errorf("stop Postgres process %d: %w", p.pid, err)
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

	gone := func(pid int) bool { return !strings.Contains(commandLine(pid), "postgres") }

	return wait(ctx, func() bool {
		return !p.alive() && !slices.ContainsFunc(offspring, func(pid int) bool { return !gone(pid) })
	})
}
