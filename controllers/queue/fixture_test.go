package queue_test

import (
	"fmt"
	"testing"
	"time"

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
	"deadletter.dev/deadletter/controllers/status/statustest"
	"deadletter.dev/deadletter/internal/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	// within is how long a change may take on a busy machine.
	within = time.Minute
	every  = 100 * time.Millisecond
)

// fixture is a namespace with a Broker and the Queue controller at work in it.
type fixture struct {
	*queuetest.Cluster

	t *testing.T
	// defaultBroker is the operator's.
	defaultBroker types.NamespacedName
}

func newFixture(t *testing.T, others ...string) *fixture {
	t.Helper()
	f := &fixture{Cluster: queuetest.New(t), t: t}
	f.start(others...)
	return f
}

func (f *fixture) start(others ...string) (stop func()) {
	f.t.Helper()
	return f.Start(f.t, func(mgr ctrl.Manager) error { return queue.Setup(mgr, f.Registry, f.defaultBroker) }, others...)
}

// create creates a Queue in the namespace.
func (f *fixture) create(name string, change func(*v1alpha1.Queue)) *v1alpha1.Queue {
	f.t.Helper()
	object := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	if change != nil {
		change(object)
	}
	if err := f.Client.Create(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
	return object
}

// edit changes the spec of a Queue.
func (f *fixture) edit(object *v1alpha1.Queue, change func(*v1alpha1.Queue)) {
	f.t.Helper()
	f.read(object)
	before := object.DeepCopy()
	change(object)
	if err := f.Client.Patch(f.t.Context(), object, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) read(object *v1alpha1.Queue) {
	f.t.Helper()
	if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) remove(object client.Object) {
	f.t.Helper()
	if err := f.Client.Delete(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
}

// await waits until a condition has a status and reason, and checks the whole status against kstatus then.
func (f *fixture) await(object *v1alpha1.Queue, conditionType string, want metav1.ConditionStatus, reason string,
	state kstatus.Status,
) *metav1.Condition {
	f.t.Helper()
	var found *metav1.Condition
	f.eventually(func() error {
		if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		found = apimeta.FindStatusCondition(object.Status.Conditions, conditionType)
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
	return found
}

func (f *fixture) awaitReady(object *v1alpha1.Queue) {
	f.t.Helper()
	f.await(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, kstatus.CurrentStatus)
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

func (f *fixture) awaitEvent(object client.Object, kind string) {
	f.t.Helper()
	f.eventually(func() error {
		found, err := f.Events(f.t.Context(), object)
		if _, ok := found[kind]; err == nil && !ok {
			return fmt.Errorf("there is no Event %q among %q", kind, found)
		}
		return err
	})
}

func (f *fixture) eventually(check func() error) {
	f.t.Helper()
	gomega.NewWithT(f.t).Eventually(check, within, every).Should(gomega.Succeed())
}

// namespace creates another namespace.
func (f *fixture) namespace() string {
	f.t.Helper()
	return kubetest.Namespace(f.t, f.Config)
}
