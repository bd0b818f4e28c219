package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// reaperCommand is how the demo calls itself as its reaper.
const reaperCommand = "reap"

// reaper is a process that cleans up after a demo that was killed.
type reaper struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

func startReaper() (*reaper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	cmd := exec.Command(self, reaperCommand)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}

	if err := cmd.Start(); err != nil {
		return nil, err
	}

	return &reaper{cmd: cmd, pipe: pipe}, nil
}

// end lets the reaper find that there is nothing left to do.
func (r *reaper) end() error {
	if err := r.pipe.Close(); err != nil {
		return err
	}

	return r.cmd.Wait()
}

// reap waits until the demo at the other end of the standard input is gone, and stops what it has left.
func reap(root string) error {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}

	place, release, err := open(context.Background(), root, "run", nil)
	if err != nil {
		return err
	}
	defer release()

	return place.stop()
}
