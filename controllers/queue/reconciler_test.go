package queue_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/queue"
	"deadletter.dev/deadletter/controllers/queue/queuetest"
	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

func TestQueueIsStoredAndReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", func(q *v1alpha1.Queue) {
		q.Spec.QueueName, q.Spec.MaxRetries = "eu/u\u0308ber", 5
		q.Spec.MessageTTLSeconds, q.Spec.MaxLength, q.Spec.Overflow = 60, 1000, v1alpha1.QueueOverflowDeadLetter
	})
	f.awaitReady(object)
	if got := object.Status.QueueName; got != "eu/über" {
		t.Errorf("queueName is %q", got)
	}
	if got, want := object.Status.Endpoint, queuetest.Endpoint+"/queues/eu%2F%C3%BCber"; got != want {
		t.Errorf("endpoint is %q, want %q", got, want)
	}
	if diff := cmp.Diff(object.Effective(), object.Status.Effective); diff != "" {
		t.Error(diff)
	}
	if got := object.Status.Broker; got.Name != f.Broker.Name || got.Namespace != f.Broker.Namespace {
		t.Errorf("broker is %+v", got)
	}
	info, err := f.Store.Queue(t.Context(), "eu/über")
	if err != nil {
		t.Fatal(err)
	}
	want := message.DefaultSettings()
	want.MaxRetries = 5
	want.MessageTTL, want.MaxLength, want.Overflow = time.Minute, 1000, message.OverflowDeadLetter
	if diff := cmp.Diff(want, info.Settings); diff != "" {
		t.Error(diff)
	}
	if (info.Owner != store.Owner{Namespace: f.Namespace, Name: "orders"}) {
		t.Errorf("owner is %+v", info.Owner)
	}
	f.awaitEvent(object, "Normal "+v1alpha1.ReasonSynced)
}

func TestChangedSettingsAreStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", nil)
	f.awaitReady(object)
	f.edit(object, func(q *v1alpha1.Queue) { q.Spec.State, q.Spec.MaxDeliveries = v1alpha1.QueuePaused, 4 })
	f.await(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPaused, kstatus.CurrentStatus)
	info, err := f.Store.Queue(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if info.Settings.State != message.Paused || info.Settings.MaxDeliveries != 4 {
		t.Errorf("settings are %+v", info.Settings)
	}
	f.edit(object, func(q *v1alpha1.Queue) { q.Spec.State = v1alpha1.QueueActive })
	f.awaitReady(object)
}

func TestQueueThatTheDatabaseLostIsStoredAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", nil)
	f.awaitReady(object)
	owner := store.Owner{Namespace: f.Namespace, Name: "orders"}
	if err := f.Store.DeleteQueue(t.Context(), "orders", owner, false); err != nil {
		t.Fatal(err)
	}
	f.eventually(func() error {
		_, err := f.Store.Queue(t.Context(), "orders")
		return err
	})
}

func TestQueueWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Gate.Close()
	object := f.create("orders", nil)
	f.await(object, v1alpha1.ConditionSynced, metav1.ConditionUnknown, v1alpha1.ReasonDatabaseUnreachable,
		kstatus.InProgressStatus)
	f.Gate.Open()
	f.awaitReady(object)
}

func TestQueueWaitsForBrokerThatIsNotConnected(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Registry.Forget(f.Broker)
	f.SetBroker(t, f.Broker, metav1.ConditionFalse)
	object := f.create("orders", nil)
	f.await(object, v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonBrokerNotReady,
		kstatus.InProgressStatus)
	f.Connect(t, f.Broker, f.URL)
	f.SetBroker(t, f.Broker, metav1.ConditionTrue)
	f.awaitReady(object)
}

// A Queue that nobody serves takes no message and hands out none, whatever is stored about it.
func TestQueueIsReadyOnlyWhileItsBrokerServes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", nil)
	f.awaitReady(object)
	f.SetAvailable(t, f.Broker, metav1.ConditionFalse)
	f.await(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBrokerNotAvailable,
		kstatus.InProgressStatus)
	if !apimeta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionSynced) || object.Status.Endpoint == "" {
		t.Errorf("status is %+v", object.Status)
	}
	// Its settings are stored and its depth is read all the same.
	f.Bury(t, "orders", 3, "TIMEOUT")
	f.edit(object, func(q *v1alpha1.Queue) { q.Spec.State, q.Spec.MaxRetries = v1alpha1.QueuePaused, 7 })
	f.eventually(func() error {
		f.read(object)
		info, err := f.Store.Queue(t.Context(), "orders")
		count := object.Status.DeadLetters.Count
		if err == nil && (info.Settings.MaxRetries != 7 || count == nil || *count != 3) {
			return fmt.Errorf("settings are %+v, status %+v", info.Settings, object.Status)
		}
		return err
	})
	f.await(object, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonBrokerNotAvailable,
		kstatus.InProgressStatus)
	f.SetAvailable(t, f.Broker, metav1.ConditionTrue)
	f.await(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPaused, kstatus.CurrentStatus)
}

func TestSecondPassWritesNothing(t *testing.T) {
	t.Parallel()
	f := &fixture{Cluster: queuetest.New(t), t: t}
	var again *queue.Reconciler
	f.Start(t, func(mgr ctrl.Manager) error {
		again = queue.NewReconciler(mgr, f.Registry, f.defaultBroker)
		return queue.Setup(mgr, f.Registry, f.defaultBroker)
	})
	ready := f.create("orders", nil)
	f.awaitReady(ready)
	loser := f.create("later", func(q *v1alpha1.Queue) { q.Spec.QueueName = "orders" })
	f.await(loser, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonConflict, kstatus.FailedStatus)
	missing := f.create("lost", func(q *v1alpha1.Queue) { q.Spec.BrokerRef.Name = "nowhere" })
	f.await(missing, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonBrokerNotFound,
		kstatus.InProgressStatus)
	f.eventually(func() error {
		f.read(ready)
		if ready.Status.Messages.Pending == nil {
			return errors.New("no depth yet")
		}
		return nil
	})
	rows := f.rows()
	f.settle(again, ready, loser, missing)
	f.Writes.Reset()
	for range 3 {
		for _, object := range []*v1alpha1.Queue{ready, loser, missing} {
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
			if _, err := again.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := f.Writes.List(); len(got) > 0 {
		t.Errorf("wrote %q", got)
	}
	if diff := cmp.Diff(rows, f.rows()); diff != "" {
		t.Error(diff)
	}
}

// settle waits until the cache has what the API server has, by a pass that writes nothing.
func (f *fixture) settle(again *queue.Reconciler, objects ...*v1alpha1.Queue) {
	f.t.Helper()
	f.eventually(func() error {
		f.Writes.Reset()
		for _, object := range objects {
			_, err := again.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
			if err != nil {
				return err
			}
		}
		if got := f.Writes.List(); len(got) > 0 {
			return errors.New(got[0])
		}
		return nil
	})
}

// rows is when each queue was last changed in the database.
func (f *fixture) rows() []store.QueueInfo {
	f.t.Helper()
	infos, err := f.Store.Queues(f.t.Context(), "", 100)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range infos {
		infos[i].Depth.ObservedAt = time.Time{}
	}
	return infos
}

// A new process must not touch thousands of Queues while it connects to their databases.
func TestRestartKeepsStatusUntilConnected(t *testing.T) {
	t.Parallel()
	f := &fixture{Cluster: queuetest.New(t), t: t}
	stop := f.start()
	object := f.create("orders", nil)
	f.awaitReady(object)
	stop()
	f.Registry.Forget(f.Broker)
	version := f.version(object)
	f.Writes.Reset()
	f.start()
	// The fence is a Queue that comes later and is dealt with, so the first one has been too.
	fence := f.create("fence", nil)
	f.await(fence, v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonBrokerNotReady,
		kstatus.InProgressStatus)
	if got := f.version(object); got != version {
		t.Errorf("the Queue was written: %+v", object.Status.Conditions)
	}
	f.Connect(t, f.Broker, f.URL)
	f.awaitReady(fence)
}

func (f *fixture) version(object *v1alpha1.Queue) string {
	f.t.Helper()
	f.read(object)
	return object.ResourceVersion
}
