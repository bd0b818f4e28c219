package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

func deleting(policy v1alpha1.QueueDeletionPolicy) func(*v1alpha1.Queue) {
	return func(q *v1alpha1.Queue) { q.Spec.DeletionPolicy = policy }
}

// awaitHeld waits until a Queue that is being deleted says why it is still there.
func (f *fixture) awaitHeld(object *v1alpha1.Queue, reason string) string {
	f.t.Helper()
	return f.await(object, v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, kstatus.TerminatingStatus).Message
}

func (f *fixture) awaitErased(name string) {
	f.t.Helper()
	f.eventually(func() error {
		_, err := f.Store.Queue(f.t.Context(), name)
		if err == nil {
			return fmt.Errorf("queue %q is still stored", name)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return nil
	})
}

func TestRetainKeepsTheMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", nil)
	f.awaitReady(object)
	f.Enqueue(t, "orders", 3)
	f.remove(object)
	f.awaitGone(object)
	info, err := f.Store.Queue(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if info.Depth.Pending != 3 || info.Declared {
		t.Errorf("after the deletion: %+v", info)
	}
	f.awaitEvent(object, "Normal "+v1alpha1.ReasonReleased)
	// A Queue of the same name takes them up again.
	f.awaitReady(f.create("orders", nil))
	if depth := f.Depth(t, "orders"); depth.Pending != 3 {
		t.Errorf("depth is %+v", depth)
	}
}

func TestRetainLeavesAQueueThatWorks(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.QueueDeletionPolicy{
		v1alpha1.QueueDeletionRetain, v1alpha1.QueueDeletionDeleteIfEmpty,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			object := f.create("orders", func(q *v1alpha1.Queue) {
				q.Spec.DeletionPolicy, q.Spec.State, q.Spec.MaxRetries = policy, v1alpha1.QueuePaused, 7
			})
			f.await(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPaused, kstatus.CurrentStatus)
			f.Enqueue(t, "orders", 1)
			f.remove(object)
			if policy != v1alpha1.QueueDeletionRetain {
				f.awaitHeld(object, v1alpha1.ReasonNotEmpty)
				f.edit(object, deleting(v1alpha1.QueueDeletionRetain))
			}
			f.awaitGone(object)
			f.Enqueue(t, "orders", 1)
			f.Claim(t, "orders", 2)
			info, err := f.Store.Queue(t.Context(), "orders")
			if err != nil || info.Settings.MaxRetries != 7 {
				t.Errorf("the settings were not kept: %+v, %v", info.Settings, err)
			}
		})
	}
}

func TestRetainNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", nil)
	f.awaitReady(object)
	f.Gate.Close()
	f.remove(object)
	f.awaitGone(object)
}

func TestDeleteIfEmptyWaitsForTheWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", deleting(v1alpha1.QueueDeletionDeleteIfEmpty))
	f.awaitReady(object)
	f.Enqueue(t, "orders", 3)
	f.remove(object)
	if text := f.awaitHeld(object, v1alpha1.ReasonNotEmpty); !strings.Contains(text, "3 pending, 0 claimed and 0 dead") {
		t.Errorf("message says %q", text)
	}
	f.awaitEvent(object, "Warning "+v1alpha1.ReasonNotEmpty)
	_, err := f.Store.Enqueue(t.Context(), "orders", []store.NewMessage{{Payload: []byte("late")}})
	if !errors.Is(err, store.ErrClosedQueue) {
		t.Errorf("a queue that is being deleted took a message: %v", err)
	}
	for _, m := range f.Claim(t, "orders", 3) {
		settled, err := f.Store.Succeed(t.Context(), "orders", []store.LeaseRef{{ID: m.ID, Token: m.Lease.Token}})
		if err != nil || settled[0].Err != nil {
			t.Fatal(err, settled)
		}
	}
	f.awaitGone(object)
	f.awaitErased("orders")
	f.awaitEvent(object, "Normal "+v1alpha1.ReasonDeleted)
}

func TestDeleteErasesTheMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", deleting(v1alpha1.QueueDeletionDelete))
	f.awaitReady(object)
	for range 3 {
		f.Bury(t, "orders", 900, string(message.External))
	}
	f.Enqueue(t, "other", 1)
	f.remove(object)
	f.awaitGone(object)
	f.awaitErased("orders")
	if depth := f.Depth(t, "other"); depth.Pending != 1 {
		t.Errorf("another queue lost messages: %+v", depth)
	}
}

func TestDeleteWaitsForTheDatabaseUntilPolicyIsRetain(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.QueueDeletionPolicy{
		v1alpha1.QueueDeletionDelete, v1alpha1.QueueDeletionDeleteIfEmpty,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			object := f.create("orders", deleting(policy))
			f.awaitReady(object)
			f.Gate.Close()
			f.remove(object)
			if text := f.awaitHeld(object, v1alpha1.ReasonDatabaseUnreachable); !strings.Contains(text, "'Retain'") {
				t.Errorf("message does not say how to go on: %q", text)
			}
			f.edit(object, deleting(v1alpha1.QueueDeletionRetain))
			f.awaitGone(object)
		})
	}
}

func TestDeleteGoesOnWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", deleting(v1alpha1.QueueDeletionDelete))
	f.awaitReady(object)
	f.Gate.Close()
	f.remove(object)
	f.awaitHeld(object, v1alpha1.ReasonDatabaseUnreachable)
	f.Gate.Open()
	f.awaitGone(object)
	f.awaitErased("orders")
}

func TestDeleteLetsGoWhenTheBrokerIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", deleting(v1alpha1.QueueDeletionDelete))
	f.awaitReady(object)
	f.remove(&v1alpha1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Broker.Name}})
	f.awaitRefused(object, v1alpha1.ReasonBrokerNotFound, kstatus.InProgressStatus)
	f.remove(object)
	f.awaitGone(object)
	f.awaitEvent(object, "Warning "+v1alpha1.ReasonReleased)
	if _, err := f.Store.Queue(t.Context(), "orders"); err != nil {
		t.Errorf("the queue was erased all the same: %v", err)
	}
}

func TestDeleteLetsGoWhenTheNamespaceGoesAndTheDatabaseIsDown(t *testing.T) {
	t.Parallel()
	f, shared := withPlatform(t, v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesFromAll})
	doomed := f.namespace()
	f.start(shared.Namespace, doomed)
	object := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: doomed, Name: "orders"}}
	refTo(shared)(object)
	object.Spec.DeletionPolicy = v1alpha1.QueueDeletionDelete
	if err := f.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	f.awaitReady(object)
	f.Gate.Close()
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespace.Name = doomed
	f.remove(namespace)
	f.remove(object)
	f.awaitGone(object)
}

func TestQueueThatWasNeverStoredGoesAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Enqueue(t, "orders", 3)
	f.Gate.Close()
	object := f.create("orders", deleting(v1alpha1.QueueDeletionDelete))
	f.await(object, v1alpha1.ConditionSynced, metav1.ConditionUnknown, v1alpha1.ReasonDatabaseUnreachable,
		kstatus.InProgressStatus)
	f.remove(object)
	f.awaitGone(object)
	if depth := f.Depth(t, "orders"); depth.Pending != 3 {
		t.Errorf("depth is %+v", depth)
	}
}

func TestQueueOfAnotherOwnerIsNotErased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", deleting(v1alpha1.QueueDeletionDelete))
	f.awaitReady(object)
	f.Enqueue(t, "orders", 3)
	other := store.Owner{Namespace: "elsewhere", Name: "orders"}
	if _, err := f.Store.DeclareQueue(t.Context(), "orders", other, message.DefaultSettings()); err != nil {
		t.Fatal(err)
	}
	f.remove(object)
	f.awaitGone(object)
	f.awaitEvent(object, "Warning "+v1alpha1.ReasonReleased)
	if depth := f.Depth(t, "orders"); depth.Pending != 3 {
		t.Errorf("depth is %+v", depth)
	}
}
