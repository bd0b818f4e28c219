package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestStartTimeFromStat(t *testing.T) {
	t.Parallel()

	const rest = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"

	for name, test := range map[string]struct{ stat, want string }{
		"running":                {"12 (etcd) S" + rest, "4711"},
		"name with parentheses":  {"12 (a) Z (b)) R" + rest, "4711"},
		"zombie counts as ended": {"12 (etcd) Z" + rest, ""},
		"truncated":              {"12 (etcd) S 1 2", ""},
		"nothing":                {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := startTimeFromStat([]byte(test.stat)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestStopLeavesStrangersAlone(t *testing.T) {
	t.Parallel()

	stranger := exec.CommandContext(t.Context(), "sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = stranger.Wait() })

	pid := stranger.Process.Pid
	recorded := process{Name: "etcd", PID: pid, Started: "a different time"}

	if recorded.alive() {
		t.Fatal("a stranger with the recorded id counts as the recorded process")
	}

	if err := recorded.stop(); err != nil {
		t.Fatal(err)
	}

	if startTime(pid) == "" {
		t.Error("stop killed a stranger")
	}
}

func TestStopKillsWhatIgnoresTermination(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	log := filepath.Join(dir, "log")

	stubborn, err := spawn("/bin/sh", []string{"-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"}, dir, log)
	if err != nil {
		t.Fatal(err)
	}

	for ready := false; !ready; {
		content, err := os.ReadFile(log)
		if err != nil || !stubborn.alive() {
			t.Fatalf("the process does not come up: %v", err)
		}

		ready = string(content) == "ready\n"
	}

	start := time.Now()

	if err := stubborn.stop(); err != nil {
		t.Fatal(err)
	}

	if stubborn.alive() {
		t.Error("the process survived")
	}

	if took := time.Since(start); took < stopGrace {
		t.Errorf("the process was killed after %s, want the full grace of %s", took, stopGrace)
	}
}
