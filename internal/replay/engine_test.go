package replay_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

// finish steps a run without a rate to its end.
func finish(t *testing.T, engine *replay.Engine, db replay.Runs, run store.Run) store.Run {
	t.Helper()
	for run.State == store.RunRunning {
		after, wait, err := engine.Step(t.Context(), db, run, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if wait != 0 {
			t.Fatalf("a run without a rate waits %s", wait)
		}
		run = after
	}
	return run
}

func TestStepMovesEverySelectedLetterOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bury(t, 3000, "EXTERNAL")
	run := finish(t, replay.NewEngine(time.Now), f.store, f.start(t, spec("1")))
	if run.State != store.RunCompleted || run.Replayed != 3000 {
		t.Fatalf("run ended as %+v", run)
	}
	f.books(t, run.ID).check(t, 3000)
}

func TestStepOfFinishedRunDoesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bury(t, 5, "EXTERNAL")
	engine := replay.NewEngine(time.Now)
	run := finish(t, engine, f.store, f.start(t, spec("1")))
	again, wait, err := engine.Step(t.Context(), refusing{}, run, time.Second)
	if err != nil || wait != 0 {
		t.Fatalf("step of a finished run: wait %s, error %v", wait, err)
	}
	if diff := cmp.Diff(run, again); diff != "" {
		t.Fatal(diff)
	}
}

// refusing is a database that cannot be reached.
type refusing struct{ replay.Runs }

var errRefused = errors.New("refused")

func (refusing) StepRun(context.Context, int64, int, store.Edit) (store.Run, error) {
	return store.Run{}, errRefused
}

func TestStepReportsErrorAndGoesOnLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bury(t, 50, "EXTERNAL")
	engine, run := replay.NewEngine(time.Now), f.start(t, spec("1"))
	after, _, err := engine.Step(t.Context(), refusing{}, run, time.Second)
	if !errors.Is(err, errRefused) {
		t.Fatalf("got error %v", err)
	}
	if diff := cmp.Diff(run, after); diff != "" {
		t.Fatalf("a failed step changed the run: %s", diff)
	}
	if run = finish(t, engine, f.store, run); run.Replayed != 50 {
		t.Fatalf("run ended as %+v", run)
	}
}

func TestStepKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bury(t, 500, "EXTERNAL")
	run, wait, err := replay.NewEngine(time.Now).Step(t.Context(), f.store, f.start(t, spec("1")), 0)
	if err != nil || wait != 0 {
		t.Fatalf("wait %s, error %v", wait, err)
	}
	if run.Replayed == 0 || run.State != store.RunRunning {
		t.Fatalf("a step without a budget must move one batch and stop, got %+v", run)
	}
}

func TestTwoEnginesStepOneRun(t *testing.T) {
	t.Parallel()
	const n = 4000
	f := newFixture(t)
	f.bury(t, n, "EXTERNAL")
	run := f.start(t, spec("1"))
	var group sync.WaitGroup
	for range 2 {
		db := open(t, f.url)
		group.Go(func() {
			engine, mine := replay.NewEngine(time.Now), run
			for mine.State == store.RunRunning {
				after, _, err := engine.Step(t.Context(), db, mine, 10*time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				mine = after
			}
		})
	}
	group.Wait()
	b := f.books(t, run.ID)
	b.check(t, n)
	if b.State != "Completed" || b.Replayed != n {
		t.Fatalf("run ended as %+v", b)
	}
}

func TestDeathsDuringRunDoNotJoinIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bury(t, 300, "EXTERNAL")
	engine, run := replay.NewEngine(time.Now), f.start(t, spec("1"))
	run, _, err := engine.Step(t.Context(), f.store, run, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The replayed ones die again, and others die for the first time.
	f.kill(t, int(run.Replayed), "EXTERNAL")
	f.bury(t, 200, "EXTERNAL")
	run = finish(t, engine, f.store, run)
	b := f.books(t, run.ID)
	if run.Replayed != 300 || b.Once != 300 || b.Often != 0 {
		t.Fatalf("the run took letters that were not selected: %+v", b)
	}
	if b.Pending+b.Dead != 500 {
		t.Fatalf("letters were lost: %+v", b)
	}
}

func TestLetterThatDiedAgainIsSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.bury(t, 10, "EXTERNAL")
	run := f.start(t, spec("1"))
	if _, err := f.store.Replay(t.Context(), queue, ids[9]); err != nil {
		t.Fatal(err)
	}
	f.kill(t, 1, "EXTERNAL")
	run = finish(t, replay.NewEngine(time.Now), f.store, run)
	if run.Replayed != 9 || run.Skipped != 1 {
		t.Fatalf("replayed %d and skipped %d", run.Replayed, run.Skipped)
	}
	letter, err := f.store.Get(t.Context(), queue, ids[9])
	if err != nil {
		t.Fatal(err)
	}
	if letter.Status != "dead" || letter.ReplayCount != 1 {
		t.Fatalf("the second death was replayed too: %+v", letter)
	}
}

func TestReplayOfOneLetterRacesRun(t *testing.T) {
	t.Parallel()
	const n = 400
	f := newFixture(t)
	ids := f.bury(t, n, "EXTERNAL")
	run := f.start(t, spec("1"))
	var (
		group sync.WaitGroup
		alone int64
	)
	group.Go(func() {
		for _, id := range ids {
			switch _, err := f.store.Replay(t.Context(), queue, id); {
			case err == nil:
				alone++
			case !errors.Is(err, store.ErrNotDead):
				t.Error(err)
			}
		}
	})
	for db := (capped{f.store, 3}); run.State == store.RunRunning; {
		var err error
		if run, err = db.StepRun(t.Context(), run.ID, 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	group.Wait()
	b := f.books(t, run.ID)
	if b.Once != n || b.Often != 0 || b.Pending != n {
		t.Fatalf("not every letter came back exactly once: %+v", b)
	}
	if run.Replayed+alone != n || run.Skipped != alone {
		t.Fatalf("run replayed %d and skipped %d, alone %d", run.Replayed, run.Skipped, alone)
	}
}

func TestCancelKeepsTheRestDead(t *testing.T) {
	t.Parallel()
	const n = 500
	f := newFixture(t)
	f.bury(t, n, "EXTERNAL")
	engine, run := replay.NewEngine(time.Now), f.start(t, spec("1"))
	run, _, err := engine.Step(t.Context(), f.store, run, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.store.CancelRun(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
	}
	after := finish(t, engine, f.store, run)
	b := f.books(t, run.ID)
	b.check(t, n)
	if after.State != store.RunCancelled || b.Replayed != run.Replayed || b.Dead != n-run.Replayed {
		t.Fatalf("cancelled at %d replayed, ended as %+v", run.Replayed, b)
	}
	// The rest is free for another run.
	next := finish(t, engine, f.store, f.start(t, spec("2")))
	if next.Replayed != n-run.Replayed {
		t.Fatalf("the next run replayed %d", next.Replayed)
	}
}

// capped makes batches small, so that there are many moments between them.
type capped struct {
	replay.Runs

	most int
}

func (c capped) StepRun(ctx context.Context, id int64, batch int, edit store.Edit) (store.Run, error) {
	return c.Runs.StepRun(ctx, id, min(batch, c.most), edit)
}
