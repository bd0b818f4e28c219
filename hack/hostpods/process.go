package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputGrace is how long output is read on after a process has ended and left its pipes to others.
const outputGrace = time.Second

// process is a running program.
type process struct {
	pid int
	// exited is closed when the process has ended; code and started are then final.
	exited  chan struct{}
	code    int32
	started time.Time
	ended   time.Time
}

// start runs a program with exactly this environment.
func start(argv, env []string, dir string, out io.Writer) (*process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = outputGrace

	p := &process{exited: make(chan struct{}), started: time.Now()}
	result := make(chan error)

	go func() {
		// The kernel ties a process to the thread that started it where it is to die with its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()

		err := cmd.Start()
		result <- err

		if err != nil {
			return
		}

		// How the process ended is in its state; other errors are about its output.
		_ = cmd.Wait()
		p.code, p.ended = exitCode(cmd.ProcessState), time.Now()
		close(p.exited)
	}()

	if err := <-result; err != nil {
		return nil, err
	}

	p.pid = cmd.Process.Pid

	return p, nil
}

// exitCode is the code as containers have it: 128 and the number of the signal for a process that one has ended.
func exitCode(state *os.ProcessState) int32 {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}

	return int32(state.ExitCode())
}

// stop asks the process to end, and kills it and its children when it takes longer than grace.
func (p *process) stop(grace time.Duration) {
	_ = syscall.Kill(p.pid, syscall.SIGTERM)

	timer := time.NewTimer(grace)
	defer timer.Stop()

	select {
	case <-p.exited:
	case <-timer.C:
	}

	if err := syscall.Kill(-p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return
	}

	<-p.exited
}
