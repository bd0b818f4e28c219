package replay_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

func TestDeletionCancelsTheRunAndLosesNothing(t *testing.T) {
	t.Parallel()
	const n = 400
	f := newFixture(t)
	f.Bury(t, orders, n, external)
	verify := f.watchTotal(n)
	object := f.create(slowly(100))
	f.awaitPending(20)
	f.remove(object)
	run := f.awaitRun("1", store.RunCancelled)
	verify()
	if run.Replayed == 0 || run.Replayed == n || run.Remaining != n-run.Replayed {
		t.Fatalf("cancelled as %+v", run)
	}
	f.depth(run.Replayed, n-run.Replayed)
	note := f.awaitEvent(object, "Normal "+v1alpha1.ReasonCancelled)
	if !strings.Contains(note, "not replayed: ") || strings.Contains(note, "broken") {
		t.Errorf("Event says %q", note)
	}

	// Applied again it says so, and moves nothing; another runID takes the rest.
	object = f.create(nil)
	f.awaitFailed(object, v1alpha1.ReasonCancelled)
	f.counts(object, n, run.Replayed, 0)
	f.depth(run.Replayed, n-run.Replayed)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.RunID = "2" })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, n-run.Replayed, n-run.Replayed, 0)
	f.depth(n, 0)
}

func TestDetachedRunGoesOnToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 100, external)
	object := f.create(func(r *v1alpha1.Replay) {
		slowly(20)(r)
		r.Spec.OnDelete = v1alpha1.ReplayDeletionDetach
	})
	f.awaitPending(5)
	f.remove(object)
	f.awaitEvent(object, "Normal Detached")
	run := f.awaitRun("1", store.RunCompleted)
	if run.Replayed != 100 {
		t.Fatalf("the run ended as %+v", run)
	}
	f.depth(100, 0)
}

func TestReappliedObjectAdoptsTheDetachedRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 200, external)
	detaching := func(r *v1alpha1.Replay) {
		slowly(20)(r)
		r.Spec.OnDelete = v1alpha1.ReplayDeletionDetach
	}
	object := f.create(detaching)
	f.awaitPending(5)
	f.remove(object)
	object = f.create(detaching)
	f.awaitHeld(object, v1alpha1.ReasonRunning)
	f.awaitEvent(object, "Normal Adopted")
	if f.run("1").Detached {
		t.Error("the adopted run is still detached")
	}
	f.edit(object, slowly(100000))
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 200, 200, 0)
	f.depth(200, 0)
}

func TestDeletionNeedsNoDatabaseWhenTheRunIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 3, external)
	object := f.completed()
	f.Gate.Close()
	f.remove(object)
}

func TestDeletionWaitsForTheDatabaseForAWhileOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 300, external)
	object := f.create(slowly(10))
	f.awaitPending(1)
	f.Gate.Close()
	if err := f.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	f.await(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnreachable,
		kstatus.TerminatingStatus)
	f.awaitGone(object)
	if waited := time.Since(deleted); waited < 25*time.Second || waited > 50*time.Second {
		t.Errorf("the deletion took %s", waited)
	}
	f.awaitEvent(object, "Warning "+v1alpha1.ReasonDatabaseUnreachable)
	// The run that was left over is not taken for the new object's, and does not hold its letters for ever.
	f.Gate.Open()
	left := f.run("1")
	if left.State != store.RunRunning {
		t.Fatalf("the run was cancelled without a database: %+v", left)
	}
	object = f.create(func(r *v1alpha1.Replay) { r.Spec.RunID = "2" })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	if ended := f.run("1"); ended.State != store.RunCancelled || ended.Replayed != left.Replayed {
		t.Errorf("the run that was left over ended as %+v, after %d", ended, left.Replayed)
	}
	f.counts(object, 300-left.Replayed, 300-left.Replayed, 0)
	f.depth(300, 0)
}

func TestDeletionGoesOnWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 300, external)
	object := f.create(slowly(10))
	f.awaitPending(1)
	f.Gate.Close()
	if err := f.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	f.await(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnreachable,
		kstatus.TerminatingStatus)
	f.Gate.Open()
	f.awaitGone(object)
	f.awaitRun("1", store.RunCancelled)
}

func TestDeletionWithoutQueueFindsTheRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 300, external)
	object := f.create(slowly(10))
	f.awaitPending(1)
	f.remove(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: orders}})
	f.await(object, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonQueueNotFound,
		kstatus.InProgressStatus)
	f.remove(object)
	f.awaitRun("1", store.RunCancelled)
}

// A run left over by an object whose finalizer was torn off holds its letters until somebody ends it.
func TestLeftoverOfTheSameRunIDAndAnotherSpecIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 300, external)
	object := f.create(slowly(10))
	f.awaitPending(1)
	f.stop()
	f.tearOff(object)
	f.start()
	object = f.create(func(r *v1alpha1.Replay) { r.Spec.Limits.MaxMessages = 5 })
	f.awaitFailed(object, v1alpha1.ReasonRunIDReused)
	left := f.awaitRun("1", store.RunCancelled)
	f.depth(left.Replayed, 300-left.Replayed)
}

// tearOff deletes an object past its finalizer.
func (f *fixture) tearOff(object *v1alpha1.Replay) {
	f.t.Helper()
	if err := f.Client.Delete(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
	f.read(object)
	before := object.DeepCopy()
	object.Finalizers = nil
	if err := f.Client.Patch(f.t.Context(), object, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
	f.awaitGone(object)
}

func TestReappliedObjectAdoptsTheRunItMeets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 300, external)
	object := f.create(slowly(10))
	f.awaitPending(1)
	f.stop()
	f.tearOff(object)
	object = f.create(slowly(100000))
	f.start()
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 300, 300, 0)
	f.awaitEvent(object, "Normal Adopted")
}
