package replay_test

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

// end claims n messages and has the first of them die again.
func (f fixture) end(t *testing.T, n, redeaths int) {
	t.Helper()
	held, err := f.store.Claim(t.Context(), queue, store.ClaimParams{Max: n})
	if err != nil || len(held) != n {
		t.Fatalf("claimed %d of %d, %v", len(held), n, err)
	}
	for i, m := range held {
		ref := store.LeaseRef{ID: m.ID, Token: m.Lease.Token}
		if i < redeaths {
			_, err = f.store.Fail(t.Context(), queue, []store.FailedLease{{
				LeaseRef: ref, Report: message.Report{Category: "EXTERNAL", Permanent: true},
			}})
		} else {
			_, err = f.store.Succeed(t.Context(), queue, []store.LeaseRef{ref})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// advance steps a run until it waits or is over.
func (f fixture) advance(t *testing.T, engine *replay.Engine, run store.Run) store.Run {
	t.Helper()
	run, wait, err := engine.Step(t.Context(), f.store, run, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if wait == 0 && run.State == store.RunRunning {
		t.Fatalf("neither waits nor is over: %+v", run)
	}
	return run
}

func TestCanaryIsWaitedForAndPasses(t *testing.T) {
	t.Parallel()
	const n, first = 500, 10
	f := newFixture(t)
	f.bury(t, n, "EXTERNAL")
	asked := spec("1")
	asked.Plan.Canary = store.RunCanary{Messages: first, DeadlineSeconds: 60, MaxRedeathPercent: 20}
	engine, run := replay.NewEngine(time.Now), f.start(t, asked)
	for range 3 {
		if run = f.advance(t, engine, run); run.Replayed != first {
			t.Fatalf("%d went before the canary has ended", run.Replayed)
		}
	}
	f.end(t, first-1, 2)
	if run = f.advance(t, engine, run); run.Replayed != first || run.Pending() != 1 {
		t.Fatalf("%d went while the end of one canary message is not known", run.Replayed)
	}
	// Another process, which remembers nothing, goes on from there.
	engine = replay.NewEngine(time.Now)
	f.end(t, 1, 0)
	if run = f.advance(t, engine, run); run.State != store.RunCompleted || run.Replayed != n {
		t.Fatalf("run ended as %+v", run)
	}
	if b := f.books(t, run.ID); b.Pending != n-first || b.Dead != 2 {
		t.Fatalf("books are %+v", b)
	}
}

func TestCanaryThatDiesAgainAbortsTheRun(t *testing.T) {
	t.Parallel()
	const n, first = 100, 10
	f := newFixture(t)
	f.bury(t, n, "EXTERNAL")
	asked := spec("1")
	asked.Plan.Canary = store.RunCanary{Messages: first, DeadlineSeconds: 60, MaxRedeathPercent: 20}
	engine, run := replay.NewEngine(time.Now), f.start(t, asked)
	run = f.advance(t, engine, run)
	f.end(t, 3, 3)
	if run = f.advance(t, engine, run); run.State != store.RunAborted || run.AbortReason == "" {
		t.Fatalf("run is %+v", run)
	}
	// What was sent may still end; what was not is dead, and another run's to take.
	f.end(t, first-3, 0)
	if b := f.books(t, run.ID); b.Dead != n-first+3 || b.ItemsCancelled != n-first || b.ItemsSelected != 0 {
		t.Fatalf("books are %+v", b)
	}
}

func TestRedeathsAbortARunUnderWay(t *testing.T) {
	t.Parallel()
	const n = 1000
	f := newFixture(t)
	f.bury(t, n, "EXTERNAL")
	asked := spec("1")
	asked.Plan.Abort = store.RunAbort{RedeathPercent: 50, MinSample: 20}
	engine, run := replay.NewEngine(time.Now), f.start(t, asked)
	run, _, err := engine.Step(t.Context(), f.store, run, 0)
	if err != nil || run.Replayed == 0 || run.State != store.RunRunning {
		t.Fatalf("run is %+v, %v", run, err)
	}
	sent := run.Replayed
	f.end(t, 20, 10)
	if run = f.advance(t, engine, run); run.State != store.RunAborted || run.Replayed != sent {
		t.Fatalf("run is %+v", run)
	}
}
