package replay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/queue"
	"deadletter.dev/deadletter/controllers/queue/queuetest"
	"deadletter.dev/deadletter/controllers/replay"
	"deadletter.dev/deadletter/controllers/status/statustest"
	"deadletter.dev/deadletter/internal/kubetest"
	"deadletter.dev/deadletter/internal/store"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	within = time.Minute
	every  = 50 * time.Millisecond

	orders   = "orders"
	external = "EXTERNAL"
)

// fixture is a namespace with a Broker, the Queue `orders`, and the controllers at work.
type fixture struct {
	*queuetest.Cluster

	t    *testing.T
	stop func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Cluster: queuetest.New(t), t: t}
	f.start()
	f.createQueue(orders)
	return f
}

func (f *fixture) start() {
	f.t.Helper()
	f.stop = f.Start(f.t, f.setup)
}

func (f *fixture) setup(mgr ctrl.Manager) error {
	return errors.Join(
		queue.Setup(mgr, f.Registry, types.NamespacedName{}),
		replay.Setup(mgr, f.Registry),
	)
}

func (f *fixture) createQueue(name string) {
	f.t.Helper()
	object := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	if err := f.Client.Create(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
	f.eventually(func() error {
		if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if !apimeta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("the Queue is not ready: %+v", object.Status.Conditions)
		}
		return nil
	})
}

// manifest is a Replay of every EXTERNAL letter of the Queue, as somebody would apply it.
func (f *fixture) manifest(change func(*v1alpha1.Replay)) *v1alpha1.Replay {
	object := &v1alpha1.Replay{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "fix"},
		Spec: v1alpha1.ReplaySpec{
			QueueRef: v1alpha1.QueueReference{Name: orders},
			Mode:     v1alpha1.ReplayExecute,
			Selector: v1alpha1.ReplaySelector{Categories: []string{external}},
		},
	}
	if change != nil {
		change(object)
	}
	return object
}

func (f *fixture) create(change func(*v1alpha1.Replay)) *v1alpha1.Replay {
	f.t.Helper()
	object := f.manifest(change)
	if err := f.Client.Create(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
	return object
}

func (f *fixture) edit(object *v1alpha1.Replay, change func(*v1alpha1.Replay)) {
	f.t.Helper()
	f.read(object)
	before := object.DeepCopy()
	change(object)
	if err := f.Client.Patch(f.t.Context(), object, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) read(object *v1alpha1.Replay) {
	f.t.Helper()
	if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		f.t.Fatal(err)
	}
}

// remove deletes an object and waits until it is gone.
func (f *fixture) remove(object client.Object) {
	f.t.Helper()
	if err := f.Client.Delete(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
	f.awaitGone(object)
}

func (f *fixture) awaitGone(object client.Object) {
	f.t.Helper()
	f.eventually(func() error {
		err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return fmt.Errorf("%s is still there: %+v", object.GetName(), object)
		}
		return client.IgnoreNotFound(err)
	})
}

// await waits until a condition has a status and reason, and checks the whole status against kstatus then.
func (f *fixture) await(object *v1alpha1.Replay, conditionType string, want metav1.ConditionStatus, reason string,
	state kstatus.Status,
) {
	f.t.Helper()
	f.eventually(func() error {
		if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		found := apimeta.FindStatusCondition(object.Status.Conditions, conditionType)
		if found == nil || found.Status != want || found.Reason != reason ||
			object.Status.ObservedGeneration != object.Generation {
			return fmt.Errorf("%s is %+v at generation %d, want %s %s",
				conditionType, found, object.Generation, want, reason)
		}
		return nil
	})
	if err := statustest.Check(object, state); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) awaitSucceeded(object *v1alpha1.Replay, reason string) {
	f.t.Helper()
	f.await(object, v1alpha1.ConditionSucceeded, metav1.ConditionTrue, reason, kstatus.CurrentStatus)
}

func (f *fixture) awaitFailed(object *v1alpha1.Replay, reason string) {
	f.t.Helper()
	f.await(object, v1alpha1.ConditionSucceeded, metav1.ConditionFalse, reason, kstatus.FailedStatus)
}

func (f *fixture) awaitHeld(object *v1alpha1.Replay, reason string) {
	f.t.Helper()
	f.await(object, v1alpha1.ConditionSucceeded, metav1.ConditionUnknown, reason, kstatus.InProgressStatus)
}

func (f *fixture) awaitEvent(object client.Object, kind string) string {
	f.t.Helper()
	var note string
	f.eventually(func() error {
		found, err := f.Events(f.t.Context(), object)
		text, ok := found[kind]
		if note = text; err == nil && !ok {
			return fmt.Errorf("there is no Event %q among %q", kind, found)
		}
		return err
	})
	return note
}

func (f *fixture) eventually(check func() error) {
	f.t.Helper()
	gomega.NewWithT(f.t).Eventually(check, within, every).Should(gomega.Succeed())
}

// counts checks what status says became of the letters.
func (f *fixture) counts(object *v1alpha1.Replay, matched, replayed, skipped int64) {
	f.t.Helper()
	got := object.Status.Counts
	if got.Matched == nil || *got.Matched != matched || *got.Replayed != replayed || *got.Skipped != skipped {
		f.t.Errorf("counts are %s, want matched %d, replayed %d, skipped %d", shown(got), matched, replayed, skipped)
	}
}

func shown(counts v1alpha1.ReplayCounts) string {
	if counts.Matched == nil {
		return "absent"
	}
	return fmt.Sprintf("matched %d, replayed %d, skipped %d", *counts.Matched, *counts.Replayed, *counts.Skipped)
}

// depth checks the exact depth of the Queue.
func (f *fixture) depth(pending, dead int64) {
	f.t.Helper()
	if got := f.Depth(f.t, orders); got.Pending != pending || got.Dead != dead {
		f.t.Errorf("pending %d and dead %d, want %d and %d", got.Pending, got.Dead, pending, dead)
	}
}

// awaitPending waits until at least n messages are back at work.
func (f *fixture) awaitPending(n int64) {
	f.t.Helper()
	f.eventually(func() error {
		if got := f.Depth(f.t, orders); got.Pending < n {
			return fmt.Errorf("%d are pending", got.Pending)
		}
		return nil
	})
}

// key is the key of a run of the Replay `fix`.
func (f *fixture) key(runID string) store.RunKey {
	return store.RunKey{Queue: orders, Namespace: f.Namespace, Name: "fix", RunID: runID}
}

func (f *fixture) run(runID string) store.Run {
	f.t.Helper()
	run, err := f.Store.GetRun(f.t.Context(), f.key(runID), store.RunExecute)
	if err != nil {
		f.t.Fatal(err)
	}
	return run
}

func (f *fixture) awaitRun(runID string, state store.RunState) store.Run {
	f.t.Helper()
	var run store.Run
	f.eventually(func() error {
		var err error
		run, err = f.Store.GetRun(f.t.Context(), f.key(runID), store.RunExecute)
		if err == nil && run.State != state {
			return fmt.Errorf("the run is %+v, want %s", run, state)
		}
		return err
	})
	return run
}

// watchTotal checks, in every moment until stop is called, that pending and dead letters together are n.
func (f *fixture) watchTotal(n int64) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	conn, err := pgx.Connect(ctx, f.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			var total, often int64
			err := conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE replay_count > 1) FROM deadletter.message
				WHERE status IN ('pending', 'dead')`).Scan(&total, &often)
			if err == nil && (total != n || often != 0) {
				err = fmt.Errorf("%d letters, %d of them replayed more than once; want %d and none", total, often, n)
			}
			if err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	return func() {
		f.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
		if err := conn.Close(context.WithoutCancel(ctx)); err != nil {
			f.t.Log(err)
		}
	}
}
