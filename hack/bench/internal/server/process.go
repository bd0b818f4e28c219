package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a server that runs.
type Process struct {
	name   string
	cmd    *exec.Cmd
	output *tail
	exited chan struct{}
}

const stopGrace = 20 * time.Second

// Start runs a command whose end is bound to ours, even when ours is a SIGKILL.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	process := &Process{name: name, cmd: cmd, output: &tail{}, exited: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = process.output
	}
	cmd.Stderr = process.output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started the process ends, so this one must not end before it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // The output says why it ended.
			close(process.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return process, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ready waits until the check succeeds.
func (p *Process) Ready(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %s", p.name, p.output)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %v: %w: %s", p.name, limit, err, p.output)
		case <-ticker.C:
		}
	}
}

// Stop asks the process to end, and kills its whole group if it does not.
func (p *Process) Stop() error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		target := p.PID()
		if signal == syscall.SIGKILL {
			target = -target
		}
		if err := syscall.Kill(target, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s: %w", p.name, err)
		}
		select {
		case <-p.exited:
			return nil
		case <-time.After(stopGrace):
		}
	}
	return fmt.Errorf("stop %s: process %d survives SIGKILL", p.name, p.PID())
}

// Failure is what the process wrote last.
func (p *Process) Failure() error { return fmt.Errorf("%s: %s", p.name, p.output) }

// tail keeps the end of a process's output.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailSize = 4 << 10

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(len(t.kept)-tailSize, 0):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.kept))
}

// run executes a command to its end and shows its output only if it fails.
func run(ctx context.Context, dir string, env []string, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(out))
	}
	return nil
}
