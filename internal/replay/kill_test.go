package replay_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

// helperURL names the variable that turns the test binary into a process that steps the run of spec("1").
const helperURL = "DEADLETTER_REPLAY_HELPER_URL"

func TestMain(m *testing.M) {
	url := os.Getenv(helperURL)
	if url == "" {
		pgtest.Main(m)
		return
	}
	if err := step(context.Background(), url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// step is the helper: it says so before its first batch, and ends when the run does.
func step(ctx context.Context, url string) error {
	db, err := store.Open(ctx, store.Options{DatabaseURL: url, Schema: schema})
	if err != nil {
		return fmt.Errorf("helper: %w", err)
	}
	defer db.Close()
	run, err := db.GetRun(ctx, spec("1").Key, store.RunExecute)
	if err != nil {
		return fmt.Errorf("helper: %w", err)
	}
	if _, err := fmt.Println("stepping"); err != nil {
		return fmt.Errorf("helper: %w", err)
	}
	for engine := replay.NewEngine(time.Now); run.State == store.RunRunning; {
		if run, _, err = engine.Step(ctx, capped{db, 25}, run, time.Millisecond); err != nil {
			return fmt.Errorf("helper: %w", err)
		}
	}
	return nil
}

// stepAndKill runs the helper and kills it at a random moment after its first word. It reports whether the helper was
// killed before the end of the run.
func stepAndKill(t *testing.T, url string) bool {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	helper := exec.CommandContext(ctx, executable)
	helper.Env = append(os.Environ(), helperURL+"="+url)
	helper.Stderr = os.Stderr
	output, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(output).Scan() {
		t.Error("the helper said nothing")
	}
	ended := make(chan error, 1)
	go func() { ended <- helper.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("helper: %v", err)
		}
		return false
	case <-time.After(time.Duration(rand.IntN(120_000)) * time.Microsecond):
	}
	if err := helper.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return <-ended != nil
}

func TestKilledRunResumes(t *testing.T) {
	t.Parallel()
	const n = 2000
	f := newFixture(t)
	f.bury(t, n, "EXTERNAL")
	run, kills := f.start(t, spec("1")), 0
	for f.books(t, run.ID).State == "Running" {
		if kills > 1000 {
			t.Fatal("the run makes no progress")
		}
		if stepAndKill(t, f.url) {
			kills++
		}
		// The server may still be at work on the last batch of the dead process: any snapshot must be in order.
		f.books(t, run.ID).check(t, n)
	}
	b := f.books(t, run.ID)
	b.check(t, n)
	if b.State != "Completed" || b.Replayed != n || b.Pending != n {
		t.Fatalf("run ended as %+v", b)
	}
	if kills < 5 {
		t.Fatalf("only %d kills hit the run, which proves little", kills)
	}
	t.Logf("%d kills", kills)
}
