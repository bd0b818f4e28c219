package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// commandLimit is more than any of the story's commands waits by itself.
const commandLimit = 90 * time.Second

// run shows a shell command, runs it as it is shown, and shows what it prints.
func (s *story) run(ctx context.Context, command string) (string, error) {
	s.out.command(command)

	shown := &indented{out: s.out}
	defer shown.end()

	var output bytes.Buffer

	err := s.shell(ctx, command, io.MultiWriter(&output, shown))

	return output.String(), err
}

// read runs a shell command that is not part of what the reader sees.
func (s *story) read(ctx context.Context, command string) (string, error) {
	var output bytes.Buffer

	err := s.shell(ctx, command, &output)

	return output.String(), err
}

func (s *story) shell(ctx context.Context, command string, output io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()

	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir = s.env.place.root
	cmd.Env = variables(s.env.place, s.env.path)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = time.Second

	if s.api != nil {
		cmd.Env = append(cmd.Env, "API="+s.api.base)
	}

	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}

	return nil
}
