package measure

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	line := "42 (a (odd) name) S 7 42 42 0 -1 4194304 1 2 3 4 100 20 3 1 20 0 1 0 55 0 0"
	got, err := parseStat([]byte(line))
	if err != nil || got.parent != 7 || got.used != 124*tick {
		t.Errorf("got %+v, %v, want parent 7 and 1.24s", got, err)
	}
	for _, broken := range []string{"", "42 (x) S 7", "42 (x) S p 42 42 0 -1 4194304 1 2 3 4 100 20 3 1 20"} {
		if _, err := parseStat([]byte(broken)); err == nil {
			t.Errorf("%q was accepted", broken)
		}
	}
}

func TestDescends(t *testing.T) {
	t.Parallel()
	table := map[int]processEntry{10: {parent: 1}, 11: {parent: 10}, 12: {parent: 11}, 20: {parent: 1}}
	for pid, want := range map[int]bool{10: true, 11: true, 12: true, 20: false, 1: false} {
		if got := descends(table, pid, []int{10}); got != want {
			t.Errorf("process %d: got %v, want %v", pid, got, want)
		}
	}
}

func TestProcessCPUCountsChildrenThatEnded(t *testing.T) {
	t.Parallel()
	// The shell waits for a child that counts, and then for its input to end.
	cmd := exec.Command("/bin/sh", "-c", "(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); echo done; cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	used, err := ProcessCPU(cmd.Process.Pid)
	if err != nil || used < 2*tick {
		t.Errorf("got %v, %v, want at least %v", used, err, 2*tick)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if gone, err := ProcessCPU(cmd.Process.Pid); err != nil || gone != 0 {
		t.Errorf("a process that has ended: got %v, %v, want 0", gone, err)
	}
}

func TestOwnCPUGrows(t *testing.T) {
	t.Parallel()
	before, err := OwnCPU()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		continue
	}
	if after, err := OwnCPU(); err != nil || after <= before {
		t.Errorf("got %v after %v, %v", after, before, err)
	}
}

func TestReadMemory(t *testing.T) {
	t.Parallel()
	got, err := ReadMemory(os.Getpid())
	if err != nil || got.Resident < 1<<20 || got.Peak < got.Resident {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := parseStatus([]byte("VmRSS:\t12 pages\n")); err == nil {
		t.Error("an unknown unit was accepted")
	}
}
