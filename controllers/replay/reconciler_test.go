package replay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

func slowly(perSecond int32) func(*v1alpha1.Replay) {
	return func(r *v1alpha1.Replay) { r.Spec.Limits.MessagesPerSecond = perSecond }
}

func TestReplayPutsLettersBackToWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 300, external)
	f.Bury(t, orders, 20, "VALIDATION")
	object := f.create(nil)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 300, 300, 0)
	f.depth(300, 20)
	run := object.Status.Run
	if run.ID != "1" || run.Mode != v1alpha1.ReplayExecute || run.StartTime == nil || run.CompletionTime == nil {
		t.Errorf("run is %+v", run)
	}
	if note := f.awaitEvent(object, "Normal Started"); !strings.Contains(note, "300 dead letters") {
		t.Errorf("Event says %q", note)
	}
	note := f.awaitEvent(object, "Normal "+v1alpha1.ReasonCompleted)
	if !strings.Contains(note, "300 of 300") || strings.Contains(note, "broken") {
		t.Errorf("Event says %q", note)
	}
}

func TestNothingMatched(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 3, "VALIDATION")
	object := f.create(nil)
	f.awaitSucceeded(object, v1alpha1.ReasonNothingMatched)
	f.counts(object, 0, 0, 0)
	f.depth(0, 3)
}

func TestPreviewMovesNothingUntilItIsExecuted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 30, external)
	f.Bury(t, orders, 12, "TIMEOUT")
	f.Bury(t, orders, 5, "VALIDATION")
	object := f.create(func(r *v1alpha1.Replay) {
		r.Spec.Mode = v1alpha1.ReplayPreview
		r.Spec.Selector.Categories = []string{"TIMEOUT", external}
	})
	f.awaitSucceeded(object, v1alpha1.ReasonPreviewReady)
	f.counts(object, 42, 0, 0)
	f.depth(0, 47)
	var categories []string
	for _, each := range object.Status.Categories {
		categories = append(categories, each.Category)
	}
	diff := cmp.Diff([]string{external, "TIMEOUT"}, categories)
	if diff != "" || *object.Status.Categories[0].Count != 30 {
		t.Errorf("categories are %+v: %s", object.Status.Categories, diff)
	}
	if object.Status.OldestDeathTime == nil || object.Status.NewestDeathTime == nil {
		t.Errorf("death times are %v and %v", object.Status.OldestDeathTime, object.Status.NewestDeathTime)
	}
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Mode = v1alpha1.ReplayExecute })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 42, 42, 0)
	f.depth(42, 5)
}

func TestReappliedManifestMovesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	f.remove(f.completed())
	f.Bury(t, orders, 4, "VALIDATION")
	f.Kill(t, orders, 10, external) // the same letters, dead again
	object := f.create(nil)
	f.awaitSucceeded(object, v1alpha1.ReasonAlreadyExecuted)
	f.counts(object, 10, 10, 0)
	f.depth(0, 14)
	// With another runID it is another run.
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.RunID = "2" })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 10, 10, 0)
	f.depth(10, 4)
}

// completed creates the Replay and waits for its end.
func (f *fixture) completed() *v1alpha1.Replay {
	f.t.Helper()
	object := f.create(nil)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	return object
}

// What has happened stays true, whatever becomes of the Queue and its database.
func TestOutcomeOutlivesTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 3, external)
	object := f.completed()
	f.remove(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: orders}})
	f.Gate.Close()
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Suspend = new(true) })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 3, 3, 0)
}

func TestReappliedPreviewShowsTheRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	preview := func(r *v1alpha1.Replay) { r.Spec.Mode = v1alpha1.ReplayPreview }
	object := f.create(preview)
	f.awaitSucceeded(object, v1alpha1.ReasonPreviewReady)
	f.remove(object)
	object = f.create(preview)
	f.awaitSucceeded(object, v1alpha1.ReasonPreviewReady)
	f.counts(object, 10, 0, 0)
	f.depth(0, 10)
}

func TestRunIDOfAnotherSpecStalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	f.remove(f.completed())
	f.Bury(t, orders, 5, "TIMEOUT")
	object := f.create(func(r *v1alpha1.Replay) { r.Spec.Selector.Categories = []string{"TIMEOUT"} })
	f.awaitFailed(object, v1alpha1.ReasonRunIDReused)
	f.depth(10, 5)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.RunID = "2" })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(15, 0)
}

func TestReplayWaitsForItsQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, "later", 3, external)
	object := f.create(func(r *v1alpha1.Replay) { r.Spec.QueueRef.Name = "later" })
	f.await(object, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonQueueNotFound,
		kstatus.InProgressStatus)
	f.createQueue("later")
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
}

func TestReplayWaitsForQueueThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 3, external)
	second := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "second"}}
	second.Spec.QueueName = orders
	if err := f.Client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	object := f.create(func(r *v1alpha1.Replay) { r.Spec.QueueRef.Name = "second" })
	f.awaitHeld(object, v1alpha1.ReasonQueueNotReady)
	f.says(object, "is not accepted: "+v1alpha1.ReasonConflict)
	f.depth(0, 3)
	f.remove(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: orders}})
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(3, 0)
}

func TestReplayWaitsForQueueWhoseBrokerIsNotReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 3, external)
	f.Registry.Forget(f.Broker)
	f.SetBroker(t, f.Broker, metav1.ConditionFalse)
	f.eventually(func() error {
		waiting := &v1alpha1.Queue{}
		key := client.ObjectKey{Namespace: f.Namespace, Name: orders}
		if err := f.Client.Get(t.Context(), key, waiting); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionFalse(waiting.Status.Conditions, v1alpha1.ConditionSynced) {
			return errors.New("the Queue is still in order")
		}
		return nil
	})
	object := f.create(nil)
	f.awaitHeld(object, v1alpha1.ReasonQueueNotReady)
	f.Connect(t, f.Broker, f.URL)
	f.SetBroker(t, f.Broker, metav1.ConditionTrue)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(3, 0)
}

func TestPausedQueueCanBeReplayed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 3, external)
	paused := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: orders}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"state":"Paused"}}`))
	if err := f.Client.Patch(t.Context(), paused, patch); err != nil {
		t.Fatal(err)
	}
	f.awaitSucceeded(f.create(nil), v1alpha1.ReasonCompleted)
	f.depth(3, 0)
}

func TestSuspendHoldsBackAndPauses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 200, external)
	yes, no := true, false
	object := f.create(func(r *v1alpha1.Replay) {
		slowly(40)(r)
		r.Spec.Suspend = &yes
	})
	f.awaitHeld(object, v1alpha1.ReasonSuspended)
	if _, err := f.Store.GetRun(t.Context(), f.key("1"), store.RunExecute); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a suspended run started: %v", err)
	}
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Suspend = &no })
	f.awaitPending(20)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Suspend = &yes })
	f.awaitHeld(object, v1alpha1.ReasonSuspended)
	f.await(object, v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, kstatus.InProgressStatus)
	held := f.run("1").Replayed
	f.counts(object, 200, held, 0)
	if held == 200 {
		t.Fatal("the run was over before it could be paused")
	}
	f.edit(object, func(r *v1alpha1.Replay) {
		r.Spec.Suspend = &no
		r.Spec.Limits.MessagesPerSecond = 100000
	})
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.awaitEvent(object, "Normal "+v1alpha1.ReasonNotSuspended)
	f.depth(200, 0)
}

func TestRateChangesLive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 500, external)
	object := f.create(slowly(5))
	f.awaitPending(1)
	f.awaitHeld(object, v1alpha1.ReasonRunning)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Limits = v1alpha1.ReplayLimits{} })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 500, 500, 0)
}

func TestProgressIsShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 1000, external)
	object := f.create(slowly(50))
	f.eventually(func() error {
		f.read(object)
		if got := object.Status.Counts.Replayed; got == nil || *got == 0 || *got == 1000 {
			return errors.New("no progress is shown")
		}
		return nil
	})
}

func TestNewRunWaitsForThePreviousOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 60, external)
	object := f.create(slowly(20))
	f.awaitPending(1)
	f.Bury(t, orders, 7, "TIMEOUT")
	f.edit(object, func(r *v1alpha1.Replay) {
		r.Spec.RunID, r.Spec.Selector.Categories = "2", []string{"TIMEOUT"}
	})
	f.awaitHeld(object, v1alpha1.ReasonWaitingForPreviousRun)
	if object.Status.Run.ID != "1" {
		t.Errorf("status is about run %q while run 1 is under way", object.Status.Run.ID)
	}
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	if first := f.run("1"); first.State != store.RunCompleted || first.Replayed != 60 {
		t.Errorf("the previous run ended as %+v", first)
	}
	if object.Status.Run.ID != "2" {
		t.Errorf("status is about run %q", object.Status.Run.ID)
	}
	f.counts(object, 7, 7, 0)
}

func TestLimitPerMessageSkips(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 4, external)
	once := func(r *v1alpha1.Replay) { r.Spec.Limits.MaxReplaysPerMessage = 1 }
	object := f.create(once)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.Kill(t, orders, 4, external)
	f.Bury(t, orders, 2, external)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.RunID = "2" })
	f.eventually(func() error {
		f.read(object)
		if object.Status.Run.ID != "2" || object.Status.Run.CompletionTime == nil {
			return errors.New("not there yet")
		}
		return nil
	})
	f.counts(object, 6, 2, 4)
	f.depth(2, 4)
}
