package replay_test

import (
	"fmt"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/replay"
	"deadletter.dev/deadletter/internal/message"
	engine "deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

func withCanary(canary v1alpha1.ReplayCanary) func(*v1alpha1.Replay) {
	return func(r *v1alpha1.Replay) { r.Spec.Canary = canary }
}

func TestCanaryPassesAndTheRestFollows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 30, external)
	object := f.create(withCanary(v1alpha1.ReplayCanary{Messages: 3}))
	f.awaitHeld(object, v1alpha1.ReasonCanaryRunning)
	f.awaitPending(3)
	f.depth(3, 27)
	f.Finish(t, orders, 2)
	f.awaitOutcomes(2, 0)
	if run := f.run("1"); run.Replayed != 3 || run.CanaryPassedAt != nil {
		t.Fatalf("the run is %+v while a message of its canary is pending", run)
	}
	f.Finish(t, orders, 1)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 30, 30, 0)
	f.depth(27, 0)
	for _, kind := range []string{"Normal Started", "Normal CanaryPassed", "Normal " + v1alpha1.ReasonCompleted} {
		f.awaitEvent(object, kind)
		f.happened(object, kind, 1)
	}
	f.happened(object, "Warning "+v1alpha1.ReasonAborted, 0)
}

func TestCanaryThatDiesAgainAbortsTheRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 30, external)
	canary := withCanary(v1alpha1.ReplayCanary{Messages: 3})
	object := f.create(canary)
	f.awaitPending(3)
	f.Kill(t, orders, 1, external)
	f.awaitFailed(object, v1alpha1.ReasonAborted)
	f.says(object, "1 of the 3 canary messages died again", "3 of 30 dead letters replayed", "not replayed: 27")
	f.outcomes(object, 0, 1, 2)
	f.depth(2, 28)
	f.awaitEvent(object, "Warning "+v1alpha1.ReasonAborted)
	f.happened(object, "Warning "+v1alpha1.ReasonAborted, 1)
	f.happened(object, "Normal CanaryPassed", 0)

	// Applied again it says so, and moves nothing; another runID takes the rest.
	f.remove(object)
	object = f.create(canary)
	f.awaitFailed(object, v1alpha1.ReasonAborted)
	f.depth(2, 28)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.RunID, r.Spec.Canary = "2", v1alpha1.ReplayCanary{} })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(30, 0)
}

func TestCanaryMayLoseSome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 12, external)
	object := f.create(withCanary(v1alpha1.ReplayCanary{Messages: 4, MaxRedeathPercent: new(int32(25))}))
	f.awaitPending(4)
	f.Kill(t, orders, 1, external)
	f.Finish(t, orders, 3)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(8, 1)
}

// A canary whose end is not known holds the run, however late it is and however often it is looked at.
func TestOverdueCanaryHoldsAndNeverGrows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var later *replay.Reconciler
	f.Start(t, func(mgr ctrl.Manager) error {
		later = replay.NewReconciler(mgr, f.Registry, engine.NewEngine(time.Now))
		later.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
		return nil
	})
	f.Bury(t, orders, 30, external)
	object := f.create(withCanary(v1alpha1.ReplayCanary{Messages: 3, DeadlineSeconds: 1}))
	f.awaitPending(3)
	f.Finish(t, orders, 1)
	f.awaitHeld(object, v1alpha1.ReasonCanaryOverdue)
	f.says(object, "The end of 2 of 3 canary messages is not known 1 s after", "1 succeeded, 0 died again", "workers")
	f.awaitEvent(object, "Warning "+v1alpha1.ReasonCanaryOverdue)
	for range 5 {
		_, err := later.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		if err != nil {
			t.Fatal(err)
		}
	}
	if run := f.run("1"); run.Replayed != 3 || run.State != store.RunRunning {
		t.Fatalf("the run is %+v", run)
	}
	f.depth(2, 27)
	f.Finish(t, orders, 2)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.happened(object, "Warning "+v1alpha1.ReasonCanaryOverdue, 1)
}

// What was purged says nothing of the others: the run holds, and says that it will for ever.
func TestPurgedCanaryHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	object := f.create(withCanary(v1alpha1.ReplayCanary{Messages: 2, DeadlineSeconds: 1}))
	f.awaitPending(2)
	f.Finish(t, orders, 1)
	if _, err := f.Store.Purge(t.Context(), orders, message.Pending, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	f.depth(0, 8)
	f.awaitHeld(object, v1alpha1.ReasonCanaryOverdue)
	f.says(object, "1 were removed", "Delete the Replay")
	f.remove(object)
	if run := f.run("1"); run.State != store.RunCancelled || run.Replayed != 2 {
		t.Fatalf("the run is %+v", run)
	}
}

func TestRunOfManyRedeathsAborts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 200, external)
	object := f.create(func(r *v1alpha1.Replay) {
		slowly(20)(r)
		r.Spec.AbortWhen = v1alpha1.ReplayAbort{RedeathPercent: 50, MinSample: 4}
	})
	f.awaitPending(2)
	f.Kill(t, orders, 2, external)
	f.awaitOutcomes(0, 2)
	if run := f.run("1"); run.State != store.RunRunning {
		t.Fatalf("the run is %+v before the sample is large enough", run)
	}
	f.awaitPending(4)
	f.Finish(t, orders, 2)
	f.awaitFailed(object, v1alpha1.ReasonAborted)
	f.says(object, "2 of 4 replayed messages that have ended died again, at least 50 %")
	run := f.run("1")
	if run.Replayed == 200 || run.Replayed+run.Remaining != 200 {
		t.Errorf("the run is %+v", run)
	}
	f.depth(run.Replayed-4, 202-run.Replayed)
}

// What a new runID waits for may abort, and may hang.
func TestNewRunWaitsForACanary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	object := f.create(withCanary(v1alpha1.ReplayCanary{Messages: 2}))
	f.awaitPending(2)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.RunID, r.Spec.Canary = "2", v1alpha1.ReplayCanary{} })
	f.awaitHeld(object, v1alpha1.ReasonWaitingForPreviousRun)
	f.says(object, "It waits for its canary.")
	f.Kill(t, orders, 1, external)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.awaitEvent(object, "Warning "+v1alpha1.ReasonAborted)
	f.counts(object, 9, 9, 0)
}

// awaitOutcomes waits until the database knows how many messages of run 1 succeeded, and how many died again.
func (f *fixture) awaitOutcomes(succeeded, redied int64) {
	f.t.Helper()
	f.eventually(func() error {
		run, err := f.Store.FollowRun(f.t.Context(), f.run("1").ID)
		if err == nil && (run.Succeeded != succeeded || run.Redied != redied) {
			return fmt.Errorf("%d succeeded and %d died again", run.Succeeded, run.Redied)
		}
		return err
	})
}

// outcomes checks what status says became of the messages that were replayed.
func (f *fixture) outcomes(object *v1alpha1.Replay, succeeded, redied, pending int64) {
	f.t.Helper()
	got := object.Status.Counts
	if got.Pending == nil || *got.Succeeded != succeeded || *got.Redied != redied || *got.Pending != pending {
		f.t.Errorf("outcomes are %+v, want succeeded %d, redied %d, pending %d", got, succeeded, redied, pending)
	}
}

// happened checks how often an Event was recorded.
func (f *fixture) happened(object client.Object, kind string, want int) {
	f.t.Helper()
	var list eventsv1.EventList
	if err := f.Client.List(f.t.Context(), &list, client.InNamespace(object.GetNamespace())); err != nil {
		f.t.Fatal(err)
	}
	var got int
	for i := range list.Items {
		event := &list.Items[i]
		if event.Regarding.Name != object.GetName() || event.Type+" "+event.Reason != kind {
			continue
		}
		got++
		if event.Series != nil {
			got += int(event.Series.Count) - 1
		}
	}
	if got != want {
		f.t.Errorf("%s was recorded %d times, want %d", kind, got, want)
	}
}
