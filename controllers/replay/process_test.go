package replay_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/queue"
	"deadletter.dev/deadletter/controllers/queue/queuetest"
	"deadletter.dev/deadletter/controllers/replay"
	engine "deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

func TestRunGoesOnInTheNextProcess(t *testing.T) {
	t.Parallel()
	const n = 400
	f := newFixture(t)
	f.Bury(t, orders, n, external)
	verify := f.watchTotal(n)
	object := f.create(slowly(100))
	for mark := int64(40); mark < 200; mark += 40 {
		f.awaitPending(mark)
		f.stop()
		f.start()
	}
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	verify()
	f.counts(object, n, n, 0)
	f.depth(n, 0)
}

func TestTwoManagersAtOnceMoveEachLetterOnce(t *testing.T) {
	t.Parallel()
	const n = 1000
	f := newFixture(t)
	f.Start(t, f.setup)
	f.Bury(t, orders, n, external)
	verify := f.watchTotal(n)
	object := f.create(nil)
	f.eventually(func() error {
		if f.Depth(t, orders).Pending != n {
			return errors.New("not there yet")
		}
		return nil
	})
	verify()
	f.awaitRun("1", store.RunCompleted)
	f.eventually(func() error {
		f.read(object)
		if object.Status.Counts.Replayed == nil || *object.Status.Counts.Replayed != n {
			return errors.New(shown(object.Status.Counts))
		}
		return nil
	})
}

func TestDatabaseOutageHoldsTheRunUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 200, external)
	object := f.create(slowly(50))
	f.awaitPending(10)
	f.Gate.Close()
	f.await(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnreachable,
		kstatus.InProgressStatus)
	f.Gate.Open()
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 200, 200, 0)
	f.depth(200, 0)
}

func TestSecondPassWritesNothing(t *testing.T) {
	t.Parallel()
	f := &fixture{Cluster: queuetest.New(t), t: t}
	var again *replay.Reconciler
	f.Start(t, func(mgr ctrl.Manager) error {
		again = replay.NewReconciler(mgr, f.Registry, engine.NewEngine(time.Now))
		return errors.Join(queue.Setup(mgr, f.Registry, types.NamespacedName{}), replay.Setup(mgr, f.Registry))
	})
	f.createQueue(orders)
	f.Bury(t, orders, 10, external)
	done := f.completed()
	yes := true
	held := f.create(func(r *v1alpha1.Replay) { r.Name, r.Spec.Suspend = "held", &yes })
	f.awaitHeld(held, v1alpha1.ReasonSuspended)
	lost := f.create(func(r *v1alpha1.Replay) { r.Name, r.Spec.QueueRef.Name = "lost", "nowhere" })
	f.awaitHeld(lost, v1alpha1.ReasonQueueNotFound)
	waiting := f.create(func(r *v1alpha1.Replay) {
		gated(r)
		r.Name = "waiting"
	})
	f.awaitHeld(waiting, v1alpha1.ReasonWaitingForGate)
	f.createQueue("emails")
	f.Bury(t, "emails", 5, external)
	overdue := f.create(func(r *v1alpha1.Replay) {
		r.Name, r.Spec.QueueRef.Name = "overdue", "emails"
		r.Spec.Canary = v1alpha1.ReplayCanary{Messages: 2, DeadlineSeconds: 1}
	})
	f.awaitHeld(overdue, v1alpha1.ReasonCanaryOverdue)
	pass := func() error {
		f.Writes.Reset()
		for _, object := range []*v1alpha1.Replay{done, held, lost, waiting, overdue} {
			_, err := again.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
			if err != nil {
				return err
			}
		}
		for _, line := range f.Writes.List() {
			if strings.Contains(line, "Replay") {
				return errors.New(line)
			}
		}
		return nil
	}
	f.eventually(pass)
	before := f.run("1")
	for range 3 {
		if err := pass(); err != nil {
			t.Errorf("another pass wrote: %v", err)
		}
	}
	if diff := cmp.Diff(before, f.run("1")); diff != "" {
		t.Error(diff)
	}
}
