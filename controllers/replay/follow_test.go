package replay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/replay"
	engine "deadletter.dev/deadletter/internal/replay"
)

func TestOutcomesAreFollowedAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var again *replay.Reconciler
	f.Start(t, func(mgr ctrl.Manager) error {
		again = replay.NewReconciler(mgr, f.Registry, engine.NewEngine(time.Now))
		return nil
	})
	f.Bury(t, orders, 10, external)
	object := f.completed()
	f.outcomes(object, 0, 0, 10)
	conditions := object.DeepCopy().Status.Conditions
	f.Finish(t, orders, 6)
	f.Kill(t, orders, 3, external)
	f.awaitFollowed(object, 6, 3, 1)
	if wait := reconcile(t, again, object); wait < 2*time.Second || wait > time.Minute {
		t.Errorf("the run is looked at again in %s", wait)
	}
	f.Finish(t, orders, 1)
	f.awaitFollowed(object, 7, 3, 0)
	if diff := cmp.Diff(conditions, object.Status.Conditions); diff != "" {
		t.Errorf("the conditions have changed:\n%s", diff)
	}
	f.eventually(func() error {
		if wait := reconcile(t, again, object); wait != 0 {
			return fmt.Errorf("nothing is left to follow, and the run is looked at again in %s", wait)
		}
		return nil
	})
}

// A run that ended otherwise, and one that was over before its object was there, are followed as well.
func TestOutcomesOfEveryEndAreFollowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	canary := withCanary(v1alpha1.ReplayCanary{Messages: 3})
	object := f.create(canary)
	f.awaitPending(3)
	f.Kill(t, orders, 1, external)
	f.awaitFailed(object, v1alpha1.ReasonAborted)
	f.Finish(t, orders, 1)
	f.awaitFollowed(object, 1, 1, 1)
	f.remove(object)
	object = f.create(canary)
	f.awaitFailed(object, v1alpha1.ReasonAborted)
	f.Finish(t, orders, 1)
	f.awaitFollowed(object, 2, 1, 0)
}

func TestOutcomesAreFollowedWhileSuspended(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 100, external)
	object := f.create(slowly(10))
	f.awaitPending(2)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Suspend = new(true) })
	f.awaitHeld(object, v1alpha1.ReasonSuspended)
	f.Finish(t, orders, 2)
	f.eventually(func() error {
		f.read(object)
		if got := object.Status.Counts.Succeeded; got == nil || *got != 2 {
			return fmt.Errorf("counts are %+v", object.Status.Counts)
		}
		return nil
	})
}

// The same manifest moves nothing, whatever its plan; a plan that was not spelled out is the same as its defaults.
func TestReappliedPlanMovesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.createQueue("repair")
	f.Bury(t, orders, 10, external)
	plan := func(deadline, sample int32) func(*v1alpha1.Replay) {
		return func(r *v1alpha1.Replay) {
			r.Spec.Canary = v1alpha1.ReplayCanary{Messages: 2, DeadlineSeconds: deadline}
			r.Spec.AbortWhen = v1alpha1.ReplayAbort{RedeathPercent: 50, MinSample: sample}
			r.Spec.Target = toQueue("repair")
		}
	}
	object := f.create(plan(0, 0))
	f.eventually(func() error {
		if got := f.Depth(t, "repair").Pending; got != 2 {
			return fmt.Errorf("%d are pending", got)
		}
		return nil
	})
	f.Finish(t, "repair", 2)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.remove(object)
	f.Bury(t, orders, 4, external)
	object = f.create(plan(300, 20))
	f.awaitSucceeded(object, v1alpha1.ReasonAlreadyExecuted)
	f.counts(object, 10, 10, 0)
	f.depth(0, 4)
	f.remove(object)
	object = f.create(plan(301, 20))
	f.awaitFailed(object, v1alpha1.ReasonRunIDReused)
	f.depth(0, 4)
}

func TestFollowingSlowsDown(t *testing.T) {
	t.Parallel()
	for since, want := range map[time.Duration]time.Duration{
		-time.Hour: 2 * time.Second, 0: 2 * time.Second, 16 * time.Second: 2 * time.Second, 40 * time.Second: 5 * time.Second,
		8 * time.Minute: time.Minute, 24 * time.Hour: time.Minute,
	} {
		if got := replay.FollowWait(since); got != want {
			t.Errorf("after %s the wait is %s, want %s", since, got, want)
		}
	}
}

func (f *fixture) awaitFollowed(object *v1alpha1.Replay, succeeded, redied, pending int64) {
	f.t.Helper()
	f.eventually(func() error {
		f.read(object)
		got := object.Status.Counts
		if got.Pending == nil || *got.Succeeded != succeeded || *got.Redied != redied || *got.Pending != pending {
			return fmt.Errorf("counts are %+v", got)
		}
		return nil
	})
}

func reconcile(t *testing.T, reconciler *replay.Reconciler, object client.Object) time.Duration {
	t.Helper()
	result, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}
