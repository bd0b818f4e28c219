package store_test

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// finish steps a run to its end.
func (d database) finish(t *testing.T, run store.Run) store.Run {
	t.Helper()
	for run.State == store.RunRunning {
		run = d.step(t, run.ID, 10)
	}
	return run
}

// start starts a run from another goroutine.
func (d database) start(t *testing.T, spec store.RunSpec, run *store.Run) <-chan error {
	t.Helper()
	return call(func() (err error) {
		*run, _, err = d.StartRun(t.Context(), spec)
		return err
	})
}

// A letter that a run has selected is there when its turn comes, also if retention began before the selection was
// there for it to see.
func TestRetentionDoesNotTakeWhatIsBeingSelected(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, make([]death, 3)...)
	d.elapse(t, 365*24*time.Hour)
	slow, resume := d.pausing(t)
	var run store.Run
	started := slow.start(t, runSpec("1"), &run)
	d.awaitStop(t, 1, started)
	retained := call(func() error {
		_, err := d.EnforceRetention(t.Context(), 10)
		return err
	})
	d.awaitStop(t, 2, started, retained)
	resume()
	wantDone(t, started, retained)
	if run = d.finish(t, run); int(run.Replayed) != len(ids) || run.Skipped != 0 {
		t.Fatalf("selected letters were removed: run is %+v", run)
	}
}

// The other way round: a run does not select what retention has removed but not yet committed.
func TestARunDoesNotSelectWhatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, make([]death, 3)...)
	d.elapse(t, 365*24*time.Hour)
	slow, resume := d.pausing(t)
	var removed store.RetentionResult
	retained := call(func() (err error) {
		removed, err = slow.EnforceRetention(t.Context(), 2)
		return err
	})
	d.awaitStop(t, 1, retained)
	var run store.Run
	started := d.start(t, runSpec("1"), &run)
	d.awaitStop(t, 2, started, retained)
	resume()
	wantDone(t, started, retained)
	if removed.Dead != 2 {
		t.Fatalf("retention removed %+v", removed)
	}
	if run = d.finish(t, run); run.Matched != 1 || run.Replayed != 1 {
		t.Fatalf("letters on their way out were selected: run is %+v", run)
	}
}

// Nor do two runs select the same letter.
func TestRunsDoNotSelectTheSameLetter(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, make([]death, 3)...)
	slow, resume := d.pausing(t)
	var first, second store.Run
	spec := runSpec("1")
	spec.MaxMessages = 2
	one := slow.start(t, spec, &first)
	d.awaitStop(t, 1, one)
	two := d.start(t, runSpec("2"), &second)
	d.awaitStop(t, 2, one, two)
	resume()
	wantDone(t, one, two)
	if first.Remaining != 2 || second.Remaining != 1 || int(second.Matched) != len(ids) {
		t.Fatalf("runs are %+v and %+v", first, second)
	}
}
