package replay_test

import (
	"errors"
	"fmt"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

func toQueue(name string) v1alpha1.ReplayTarget {
	return v1alpha1.ReplayTarget{Type: v1alpha1.ReplayTargetQueue, QueueRef: v1alpha1.QueueReference{Name: name}}
}

func to(name string) func(*v1alpha1.Replay) {
	return func(r *v1alpha1.Replay) { r.Spec.Target = toQueue(name) }
}

// declare creates a Queue without waiting for it.
func (f *fixture) declare(name string, spec v1alpha1.QueueSpec) *v1alpha1.Queue {
	f.t.Helper()
	object := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}, Spec: spec}
	if err := f.Client.Create(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
	return object
}

func TestTargetTakesTheMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	// The physical queue has a name of its own.
	f.declare("repair", v1alpha1.QueueSpec{QueueName: "orders.repair"})
	object := f.create(to("repair"))
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 10, 10, 0)
	f.depth(0, 0)
	if got := f.Depth(t, "orders.repair"); got.Pending != 10 {
		t.Errorf("the target is %+v", got)
	}
	f.Kill(t, "orders.repair", 4, external)
	f.Finish(t, "orders.repair", 6)
	f.awaitFollowed(object, 6, 4, 0)
}

func TestReplayWaitsForItsTarget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	object := f.create(to("repair"))
	f.await(object, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonTargetNotFound,
		kstatus.InProgressStatus)
	f.awaitHeld(object, v1alpha1.ReasonTargetNotFound)
	f.awaitEvent(object, "Warning "+v1alpha1.ReasonTargetNotFound)
	// It claims the physical queue of another one, and is not accepted until that is gone.
	second := f.declare("other", v1alpha1.QueueSpec{QueueName: "shared"})
	f.awaitSynced(second)
	f.declare("repair", v1alpha1.QueueSpec{QueueName: "shared"})
	f.awaitHeld(object, v1alpha1.ReasonTargetNotReady)
	f.says(object, "is not accepted: "+v1alpha1.ReasonConflict)
	f.depth(0, 10)
	f.remove(second)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(0, 0)
}

func (f *fixture) awaitSynced(object *v1alpha1.Queue) {
	f.t.Helper()
	f.eventually(func() error {
		key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		if err := f.Client.Get(f.t.Context(), key, object); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionSynced) {
			return fmt.Errorf("the Queue is %+v", object.Status.Conditions)
		}
		return nil
	})
}

func TestTargetOfAnotherBrokerIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	elsewhere := types.NamespacedName{Namespace: f.Namespace, Name: "elsewhere"}
	f.Connect(t, elsewhere, pgtest.Database(t))
	f.CreateBroker(t, elsewhere, v1alpha1.AllowedNamespaces{})
	f.awaitSynced(f.declare("far", v1alpha1.QueueSpec{BrokerRef: v1alpha1.BrokerReference{Name: elsewhere.Name}}))
	object := f.create(to("far"))
	f.await(object, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid, kstatus.FailedStatus)
	f.depth(0, 10)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.RunID, r.Spec.Target = "2", v1alpha1.ReplayTarget{} })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(10, 0)
}

// The target's queue is gone from the database while the run is under way: the run holds, and loses nothing.
func TestRunHoldsWithoutItsTarget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.createQueue("repair")
	f.Bury(t, orders, 200, external)
	object := f.create(func(r *v1alpha1.Replay) {
		slowly(20)(r)
		to("repair")(r)
	})
	f.eventually(func() error {
		if got := f.Depth(t, "repair").Pending; got == 0 {
			return errors.New("nothing has moved")
		}
		return nil
	})
	owner := store.Owner{Namespace: f.Namespace, Name: "repair"}
	if err := f.Store.DeleteQueue(t.Context(), "repair", owner, false); err != nil {
		t.Fatal(err)
	}
	f.awaitHeld(object, v1alpha1.ReasonTargetNotReady)
	run := f.run("1")
	f.depth(0, 200-run.Replayed)
}
