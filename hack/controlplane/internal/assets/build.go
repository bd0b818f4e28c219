package assets

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"deadletter.dev/deadletter/hack/controlplane/internal/progress"
)

// keptLines bounds how much of a failing command's output is shown.
const keptLines = 30

// build compiles the programs into dir, each appearing there only when it is complete.
func build(ctx context.Context, source source, dir string, programs []binary, out *progress.Printer) error {
	if len(programs) == 0 {
		return nil
	}

	total := len(programs) + 1
	out.Linef("Building the Kubernetes %s control plane once, into %s.", source.kubernetes, dir)

	err := out.Step(1, total, "download modules", func(detail func(string)) error {
		requests := 0

		return runGo(ctx, source.dir, func(string) {
			requests++
			detail(fmt.Sprintf("%d requests", requests))
		}, "mod", "download", "-x")
	})
	if err != nil {
		return err
	}

	flags, err := linkerFlags(source.kubernetes)
	if err != nil {
		return err
	}

	built := map[string]bool{}

	for i, program := range programs {
		err := out.Step(i+2, total, "build "+program.name, func(detail func(string)) error {
			return compile(ctx, source.dir, dir, program, flags, built, detail)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// compile builds one program. The packages it compiles are added to built, since later programs share them.
func compile(
	ctx context.Context, sourceDir, dir string, program binary, flags string,
	built map[string]bool, detail func(string),
) error {
	remaining, err := unbuilt(ctx, sourceDir, program, built)
	if err != nil {
		return err
	}

	partial := filepath.Join(dir, "."+program.name+".partial")
	defer os.Remove(partial)

	compiled := 0
	err = runGo(ctx, sourceDir, func(pkg string) {
		built[pkg] = true
		compiled++
		detail(fmt.Sprintf("%d of at most %d packages", compiled, remaining))
	},
		"build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", partial, program.pkg)
	if err != nil {
		return err
	}

	return os.Rename(partial, filepath.Join(dir, program.name))
}

// unbuilt counts the packages that the program may still need; some may be in the build cache.
func unbuilt(ctx context.Context, sourceDir string, program binary, built map[string]bool) (int, error) {
	count := 0

	err := runGo(ctx, sourceDir, func(pkg string) {
		if !built[pkg] {
			count++
		}
	}, "list", "-deps", program.pkg)

	return count, err
}

// linkerFlags stamps the version: without it the servers report v0.0.0 and clients refuse them.
func linkerFlags(version string) (string, error) {
	major, minor, ok := majorMinor(version)
	if !ok {
		return "", fmt.Errorf("%q is no Kubernetes version", version)
	}

	flags := []string{"-s", "-w"}

	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+version,
			fmt.Sprintf("-X %s.gitMajor=%d", pkg, major),
			fmt.Sprintf("-X %s.gitMinor=%d", pkg, minor),
			"-X "+pkg+".gitTreeState=clean")
	}

	return strings.Join(flags, " "), nil
}

// runGo runs the go command in the pinned module. Every line it prints goes to onLine; the last ones explain failures.
func runGo(ctx context.Context, dir string, onLine func(string), args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	// The compilers run in the go command's group, and an interrupt must end them all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second

	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer

	tail := make(chan []string)

	go func() { tail <- readLines(reader, onLine) }()

	err := cmd.Run()

	_ = writer.Close()

	if last := <-tail; err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, strings.Join(last, "\n"))
	}

	return nil
}

// readLines reads to the end and returns the last lines.
func readLines(reader io.Reader, onLine func(string)) []string {
	var last []string

	lines := bufio.NewScanner(reader)
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		onLine(lines.Text())

		last = append(last, lines.Text())
		last = last[max(0, len(last)-keptLines):]
	}

	// A line beyond the buffer must not block the command.
	_, _ = io.Copy(io.Discard, reader)

	return last
}
