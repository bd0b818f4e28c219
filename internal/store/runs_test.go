package store_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

func runSpec(id string) store.RunSpec {
	return store.RunSpec{
		Key:  store.RunKey{Queue: orders, Namespace: "shop", Name: "fix", RunID: id},
		Hash: "hash", Mode: store.RunExecute, MaxMessages: 1000, MaxReplaysPerMessage: 3,
	}
}

func (d database) startRun(t *testing.T, spec store.RunSpec) store.Run {
	t.Helper()
	run, created, err := d.StartRun(t.Context(), spec)
	if err != nil || !created {
		t.Fatalf("start run: created %v, %v", created, err)
	}
	return run
}

func (d database) step(t *testing.T, id int64, batch int) store.Run {
	t.Helper()
	run, err := d.StepRun(t.Context(), id, batch, nil)
	if err != nil {
		t.Fatalf("step run: %v", err)
	}
	return run
}

func (d database) statuses(t *testing.T) map[message.Status]int {
	t.Helper()
	counts := map[message.Status]int{}
	for _, status := range message.Statuses() {
		if n := d.count(t, "SELECT count(*)::int FROM deadletter.message WHERE status = $1", string(status)); n > 0 {
			counts[status] = n
		}
	}
	return counts
}

func TestRunReplaysTheFrozenSelection(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, reasons("EXTERNAL: a", "VALIDATION: b", "EXTERNAL: c", "EXTERNAL: d")...)
	spec := runSpec("1")
	spec.Filter.Categories = []message.Category{"EXTERNAL"}
	run := d.startRun(t, spec)
	if run.Matched != 3 || run.Remaining != 3 || run.State != store.RunRunning {
		t.Fatalf("run is %+v", run)
	}
	if diff := cmp.Diff([]store.CategoryCount{{Category: "EXTERNAL", Count: 3}}, run.Categories); diff != "" {
		t.Fatalf("categories (-want +got):\n%s", diff)
	}
	later := d.bury(t, reasons("EXTERNAL: died during the run")...)
	d.exec(t, `UPDATE deadletter.replay_item SET died_at = died_at - interval '1 minute'`) // bury let a minute pass
	if run = d.step(t, run.ID, 2); run.Replayed != 2 || run.Remaining != 1 {
		t.Fatalf("run is %+v", run)
	}
	if run = d.step(t, run.ID, 2); run.Replayed != 3 || run.State != store.RunCompleted || run.CompletedAt == nil {
		t.Fatalf("run is %+v", run)
	}
	for _, id := range []int64{ids[1], later[0]} {
		if m, err := d.Get(t.Context(), orders, id); err != nil || m.Status != message.Dead {
			t.Fatalf("letter %d is %s, %v", id, m.Status, err)
		}
	}
	m, err := d.Get(t.Context(), orders, ids[0])
	if err != nil || m.Status != message.Pending || m.RetryCount != 0 || m.ReplayCount != 1 || m.LastFailure != nil {
		t.Fatalf("replayed message is %+v, %v", m, err)
	}
	if again := d.step(t, run.ID, 10); again.Replayed != 3 {
		t.Fatalf("a finished run moved: %+v", again)
	}
	d.check(t)
}

func TestRunIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, death{}, death{})
	first := d.startRun(t, runSpec("1"))
	d.step(t, first.ID, 10)
	d.bury(t, death{})
	for _, change := range []func(*store.RunSpec){
		func(*store.RunSpec) {},
		func(s *store.RunSpec) { s.Hash = "other" },
	} {
		spec := runSpec("1")
		change(&spec)
		run, created, err := d.StartRun(t.Context(), spec)
		if err != nil || created || run.ID != first.ID || run.Hash != "hash" || run.Replayed != 2 {
			t.Fatalf("run is %+v, created %v, %v", run, created, err)
		}
	}
	if next := d.startRun(t, runSpec("2")); next.Matched != 1 {
		t.Fatalf("next run is %+v", next)
	}
	// The ledger outlives the queue.
	if err := d.DeleteQueue(t.Context(), orders, owner, false); err != nil {
		t.Fatalf("delete queue: %v", err)
	}
	d.bury(t, death{})
	if run, created, err := d.StartRun(t.Context(), runSpec("1")); err != nil || created || run.Replayed != 2 {
		t.Fatalf("run is %+v, created %v, %v", run, created, err)
	}
	run, err := d.GetRun(t.Context(), runSpec("2").Key, store.RunExecute)
	if err != nil || run.State != store.RunCancelled {
		t.Fatalf("run of the deleted queue is %+v, %v", run, err)
	}
}

func TestPreviewMovesNothing(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, reasons("A: x", "B: y", "A: z")...)
	spec := runSpec("1")
	spec.Mode = store.RunPreview
	run := d.startRun(t, spec)
	want := []store.CategoryCount{{Category: "A", Count: 2}, {Category: "B", Count: 1}}
	if diff := cmp.Diff(want, run.Categories); diff != "" {
		t.Fatalf("categories (-want +got):\n%s", diff)
	}
	if run.State != store.RunCompleted || run.Matched != 3 || run.Replayed != 0 ||
		run.NewestDiedAt.Sub(*run.OldestDiedAt) < 2*time.Minute {
		t.Fatalf("run is %+v", run)
	}
	d.step(t, run.ID, 10)
	if got := d.statuses(t); got[message.Dead] != 3 {
		t.Fatalf("messages are %v", got)
	}
	if execute := d.startRun(t, runSpec("1")); execute.Remaining != 3 {
		t.Fatalf("a preview took letters: %+v", execute)
	}
}

func TestRunLimits(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, make([]death, 5)...)
	d.exec(t, `UPDATE deadletter.message SET replay_count = 3 WHERE id = $1`, ids[0])
	spec := runSpec("1")
	spec.MaxMessages = 2
	run := d.startRun(t, spec)
	if run.Matched != 5 || run.Skipped != 1 || run.Remaining != 2 || run.BeyondLimit != 2 {
		t.Fatalf("run is %+v", run)
	}
	if run = d.step(t, run.ID, 10); run.BeyondLimit != 2 || run.Replayed != 2 || run.State != store.RunCompleted {
		t.Fatalf("run is %+v", run)
	}
	for i, want := range []message.Status{message.Dead, message.Pending, message.Pending, message.Dead, message.Dead} {
		if m, err := d.Get(t.Context(), orders, ids[i]); err != nil || m.Status != want {
			t.Fatalf("letter %d is %s, %v", i, m.Status, err)
		}
	}
	exact := runSpec("exact")
	exact.Mode, exact.MaxMessages = store.RunPreview, 2
	if run := d.startRun(t, exact); run.Matched != 3 || run.Skipped != 1 || run.BeyondLimit != 0 {
		t.Fatalf("a run of just the limit is %+v", run)
	}
	nothing := runSpec("2")
	nothing.Filter.ErrorClass = "none"
	if run := d.startRun(t, nothing); run.Matched != 0 || run.State != store.RunCompleted {
		t.Fatalf("run is %+v", run)
	}
	nothing.Key.Queue = "none"
	if _, _, err := d.StartRun(t.Context(), nothing); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("run of no queue: %v", err)
	}
}

func TestLetterIsInOneActiveRun(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, make([]death, 4)...)
	first := runSpec("1")
	first.MaxMessages = 3
	run := d.startRun(t, first)
	other := d.startRun(t, runSpec("2"))
	if other.Matched != 4 || other.Skipped != 3 || other.Remaining != 1 {
		t.Fatalf("run is %+v", other)
	}
	cancelled, err := d.CancelRun(t.Context(), run.ID)
	if err != nil || cancelled.State != store.RunCancelled || cancelled.Remaining != 3 {
		t.Fatalf("cancelled run is %+v, %v", cancelled, err)
	}
	if again, err := d.CancelRun(t.Context(), run.ID); err != nil || !cmp.Equal(again, cancelled) {
		t.Fatalf("cancelled twice: %+v, %v", again, err)
	}
	if step := d.step(t, run.ID, 10); step.Replayed != 0 {
		t.Fatalf("a cancelled run moved: %+v", step)
	}
	if free := d.startRun(t, runSpec("3")); free.Remaining != 3 {
		t.Fatalf("run is %+v", free)
	}
}

func TestRunSkipsAnotherDeath(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, death{}, death{}, death{})
	run := d.startRun(t, runSpec("1"))
	for _, id := range ids[:2] {
		if _, err := d.Replay(t.Context(), orders, id); err != nil {
			t.Fatalf("replay: %v", err)
		}
	}
	// The first is pending; the second has died again.
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 2})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	if _, err := d.Release(t.Context(), orders, store.LeaseRef{ID: held[0].ID}, 0); err != nil {
		t.Fatalf("release: %v", err)
	}
	report := message.Report{Permanent: true}
	failed := store.FailedLease{LeaseRef: store.LeaseRef{ID: held[1].ID}, Report: report}
	if _, err := d.Fail(t.Context(), orders, []store.FailedLease{failed}); err != nil {
		t.Fatalf("fail: %v", err)
	}
	run = d.step(t, run.ID, 10)
	if run.Replayed != 1 || run.Skipped != 2 || run.State != store.RunCompleted {
		t.Fatalf("run is %+v", run)
	}
	if m, err := d.Get(t.Context(), orders, held[1].ID); err != nil || m.Status != message.Dead {
		t.Fatalf("the new death is %s, %v", m.Status, err)
	}
}

func TestStepsRaceEachOtherAndTheAPI(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, make([]death, 40)...)
	run := d.startRun(t, runSpec("1"))
	var (
		group  errgroup.Group
		alone  int
		locker sync.Mutex
	)
	for range 3 {
		group.Go(func() error {
			for {
				run, err := d.StepRun(t.Context(), run.ID, 3, nil)
				if err != nil || run.State != store.RunRunning {
					return err
				}
			}
		})
	}
	group.Go(func() error {
		for _, id := range slices.Backward(ids) {
			_, err := d.Replay(t.Context(), orders, id)
			if err == nil {
				locker.Lock()
				alone++
				locker.Unlock()
			} else if !errors.Is(err, store.ErrNotDead) {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatalf("race: %v", err)
	}
	finished, err := d.GetRun(t.Context(), runSpec("1").Key, store.RunExecute)
	if err != nil || finished.State != store.RunCompleted || int(finished.Replayed)+alone != len(ids) {
		t.Fatalf("run is %+v, %d replayed alone, %v", finished, alone, err)
	}
	if n := d.count(t, "SELECT count(*)::int FROM deadletter.message WHERE replay_count <> 1"); n != 0 {
		t.Fatalf("%d letters were not replayed exactly once", n)
	}
	d.check(t)
}

func TestRunRateAndDetach(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, death{})
	run := d.startRun(t, runSpec("1"))
	if err := errors.Join(d.SetRunRate(t.Context(), run.ID, 7), d.DetachRun(t.Context(), run.ID)); err != nil {
		t.Fatalf("change run: %v", err)
	}
	active, err := d.ActiveRuns(t.Context())
	if err != nil || len(active) != 1 || active[0].MessagesPerSecond != 7 || !active[0].Detached {
		t.Fatalf("active runs are %+v, %v", active, err)
	}
	if err := d.AttachRun(t.Context(), run.ID); err != nil {
		t.Fatalf("attach: %v", err)
	}
	if run := d.step(t, run.ID, 1); run.Detached {
		t.Fatalf("run is %+v", run)
	}
	if active, err := d.ActiveRuns(t.Context()); err != nil || len(active) != 0 {
		t.Fatalf("active runs are %+v, %v", active, err)
	}
}
