package pgtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const helperVariable = "PGTEST_HELPER"

// TestHelperProcess is the program that TestWatchdogCleansUpAfterKill kills; on its own it does nothing.
func TestHelperProcess(t *testing.T) {
	t.Parallel()

	if os.Getenv(helperVariable) == "" {
		t.Skip("runs only as a child of another test")
	}

	server, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}

	fmt.Printf("started %s %d\n", server.Dir(), server.process.pid)

	<-t.Context().Done()
}

func TestWatchdogCleansUpAfterKill(t *testing.T) {
	t.Parallel()

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperProcess$", "-test.v")
	cmd.Env = append(os.Environ(), helperVariable+"=1")

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	var (
		dir string
		pid int
	)

	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "started ") {
			if _, err := fmt.Sscanf(lines.Text(), "started %s %d", &dir, &pid); err != nil {
				t.Fatal(err)
			}
		}
	}

	if !strings.Contains(commandLine(pid), dir) {
		t.Fatalf("the helper started no server in %q", dir)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	_ = cmd.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()

	gone := func() bool {
		_, err := os.Stat(dir)

		return os.IsNotExist(err) && commandLine(pid) == ""
	}

	if wait(ctx, gone) != nil {
		t.Errorf("process %d (%s) or folder %s is still there", pid, commandLine(pid), dir)
	}
}
