package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kubectl runs quietly and returns the output.
func kubectl(ctx context.Context, place *place, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Env = variables(place, path)
	cmd.Dir = place.root

	if found, err := lookPath("kubectl", searchPath(path)); err == nil {
		cmd.Path, cmd.Err = found, nil
	}

	var complaints bytes.Buffer

	cmd.Stderr = &complaints

	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, complaints.Bytes())
	}

	return string(out), nil
}

func (e *environment) kubectl(ctx context.Context, args ...string) (string, error) {
	return kubectl(ctx, e.place, e.path, args...)
}

// searchPath is where programs are found: a folder of ours first.
func searchPath(path string) string { return path + string(filepath.ListSeparator) + os.Getenv("PATH") }

// variables are the environment of kubectl and of the story's commands.
func variables(place *place, path string) []string {
	// A proxy is of no use on the way to this machine.
	return append(os.Environ(), "PATH="+searchPath(path), "KUBECONFIG="+place.kubeconfig(), "http_proxy=")
}

// lookPath finds a program in a list of folders that is not the process's own.
func lookPath(name, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}

	return "", exec.ErrNotFound
}
