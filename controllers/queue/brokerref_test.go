package queue_test

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/queue/queuetest"
)

const teamLabel = "deadletter.dev/test-team"

// withPlatform is a fixture with a second namespace that has a Broker `shared`, in the same database.
func withPlatform(t *testing.T, allowed v1alpha1.AllowedNamespaces) (*fixture, types.NamespacedName) {
	t.Helper()
	f := &fixture{Cluster: queuetest.New(t), t: t}
	shared := types.NamespacedName{Namespace: f.namespace(), Name: "shared"}
	f.CreateBroker(t, shared, allowed)
	f.Connect(t, shared, f.URL)
	return f, shared
}

func refTo(broker types.NamespacedName) func(*v1alpha1.Queue) {
	return func(q *v1alpha1.Queue) {
		q.Spec.BrokerRef = v1alpha1.BrokerReference{Name: broker.Name, Namespace: broker.Namespace}
	}
}

func (f *fixture) awaitRefused(object *v1alpha1.Queue, reason string, state kstatus.Status) string {
	f.t.Helper()
	return f.await(object, v1alpha1.ConditionAccepted, metav1.ConditionFalse, reason, state).Message
}

func TestBrokerOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		allowed  v1alpha1.AllowedNamespaces
		labels   map[string]string
		accepted bool
	}{
		"Same":                    {},
		"All":                     {allowed: v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesFromAll}, accepted: true},
		"Selector that fits":      {allowed: selecting("red"), labels: map[string]string{teamLabel: "red"}, accepted: true},
		"Selector that does not":  {allowed: selecting("red"), labels: map[string]string{teamLabel: "blue"}},
		"Selector without labels": {allowed: selecting("red")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, shared := withPlatform(t, test.allowed)
			f.label(test.labels)
			f.start(shared.Namespace)
			object := f.create("orders", refTo(shared))
			if test.accepted {
				f.awaitReady(object)
				if object.Status.Broker.Namespace != shared.Namespace {
					t.Errorf("broker is %+v", object.Status.Broker)
				}
				return
			}
			f.awaitRefused(object, v1alpha1.ReasonRefNotPermitted, kstatus.FailedStatus)
			if _, err := f.Store.Queue(t.Context(), "orders"); err == nil {
				t.Error("a queue was stored in a Broker that does not admit it")
			}
		})
	}
}

func selecting(team string) v1alpha1.AllowedNamespaces {
	return v1alpha1.AllowedNamespaces{
		From:     v1alpha1.NamespacesFromSelector,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{teamLabel: team}},
	}
}

// label sets the labels of the Queue's namespace.
func (f *fixture) label(labels map[string]string) {
	f.t.Helper()
	namespace := &corev1.Namespace{}
	if err := f.Client.Get(f.t.Context(), client.ObjectKey{Name: f.Namespace}, namespace); err != nil {
		f.t.Fatal(err)
	}
	before := namespace.DeepCopy()
	maps.Copy(namespace.Labels, labels)
	if err := f.Client.Patch(f.t.Context(), namespace, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

func TestRefusalDoesNotTellWhetherTheBrokerExists(t *testing.T) {
	t.Parallel()
	f, shared := withPlatform(t, v1alpha1.AllowedNamespaces{})
	f.start(shared.Namespace)
	there := f.create("there", refTo(shared))
	absent := f.create("absent", refTo(types.NamespacedName{Namespace: shared.Namespace, Name: "absent"}))
	one := f.awaitRefused(there, v1alpha1.ReasonRefNotPermitted, kstatus.FailedStatus)
	two := f.awaitRefused(absent, v1alpha1.ReasonRefNotPermitted, kstatus.FailedStatus)
	if strings.ReplaceAll(one, shared.Name, "absent") != two {
		t.Errorf("the messages differ:\n%s\n%s", one, two)
	}
}

func TestGrantIsRevokedAndGivenBack(t *testing.T) {
	t.Parallel()
	f, shared := withPlatform(t, selecting("red"))
	f.label(map[string]string{teamLabel: "red"})
	f.start(shared.Namespace)
	object := f.create("orders", refTo(shared))
	f.awaitReady(object)
	f.label(map[string]string{teamLabel: "blue"})
	f.awaitRefused(object, v1alpha1.ReasonRefNotPermitted, kstatus.FailedStatus)
	if object.Status.Endpoint != "" || object.Status.Messages.Pending != nil {
		t.Errorf("status still shows the queue: %+v", object.Status)
	}
	f.label(map[string]string{teamLabel: "red"})
	f.awaitReady(object)

	broker := &v1alpha1.Broker{}
	if err := f.Client.Get(t.Context(), shared, broker); err != nil {
		t.Fatal(err)
	}
	broker.Spec.AllowedNamespaces = v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesFromSame}
	if err := f.Client.Update(t.Context(), broker); err != nil {
		t.Fatal(err)
	}
	f.awaitRefused(object, v1alpha1.ReasonRefNotPermitted, kstatus.FailedStatus)
}

func TestQueueWaitsForMissingBroker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", func(q *v1alpha1.Queue) { q.Spec.BrokerRef.Name = "fast" })
	f.awaitRefused(object, v1alpha1.ReasonBrokerNotFound, kstatus.InProgressStatus)
	fast := types.NamespacedName{Namespace: f.Namespace, Name: "fast"}
	f.Connect(t, fast, f.URL)
	f.CreateBroker(t, fast, v1alpha1.AllowedNamespaces{})
	f.awaitReady(object)
}

func TestOperatorsDefaultBroker(t *testing.T) {
	t.Parallel()
	f, shared := withPlatform(t, v1alpha1.AllowedNamespaces{From: v1alpha1.NamespacesFromAll})
	f.defaultBroker = shared
	f.start(shared.Namespace)
	// The namespace has a Broker `default`, which comes first.
	first := f.create("first", nil)
	f.awaitReady(first)
	if got := first.Status.Broker.Namespace; got != f.Namespace {
		t.Errorf("served from %q", got)
	}
	// Without one the operator's serves, and goes on to when one appears again: the messages are there.
	f.remove(&v1alpha1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Broker.Name}})
	f.awaitRefused(first, v1alpha1.ReasonBrokerNotFound, kstatus.InProgressStatus)
	second := f.create("second", nil)
	f.awaitReady(second)
	if got := second.Status.Broker.Namespace; got != shared.Namespace {
		t.Errorf("served from %q", got)
	}
	f.CreateBroker(t, f.Broker, v1alpha1.AllowedNamespaces{})
	f.awaitReady(first)
	f.edit(second, func(q *v1alpha1.Queue) { q.Spec.MaxRetries = 9 })
	f.awaitReady(second)
	if got := second.Status.Broker.Namespace; got != shared.Namespace {
		t.Errorf("moved to %q, away from its messages", got)
	}
}

// Whether the operator's own default Broker exists is no secret: a Queue that lost it says so, and waits for it.
func TestOperatorsDefaultBrokerIsGone(t *testing.T) {
	t.Parallel()
	f, shared := withPlatform(t, selecting("red"))
	f.defaultBroker = shared
	f.label(map[string]string{teamLabel: "red"})
	f.remove(&v1alpha1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Broker.Name}})
	f.start(shared.Namespace)
	object := f.create("orders", nil)
	f.awaitReady(object)
	f.label(map[string]string{teamLabel: "blue"})
	message := f.awaitRefused(object, v1alpha1.ReasonRefNotPermitted, kstatus.FailedStatus)
	if !strings.Contains(message, "no longer admits") || strings.Contains(message, "does not exist") {
		t.Errorf("the message is %q", message)
	}
	f.label(map[string]string{teamLabel: "red"})
	f.awaitReady(object)
	f.remove(&v1alpha1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: shared.Namespace, Name: shared.Name}})
	message = f.awaitRefused(object, v1alpha1.ReasonBrokerNotFound, kstatus.InProgressStatus)
	if !strings.Contains(message, "is gone") || strings.Contains(message, "admit") {
		t.Errorf("the message is %q", message)
	}
	f.CreateBroker(t, shared, selecting("red"))
	f.awaitReady(object)
}

func TestOperatorsDefaultBrokerMayRefuse(t *testing.T) {
	t.Parallel()
	f, shared := withPlatform(t, v1alpha1.AllowedNamespaces{})
	f.defaultBroker = shared
	f.remove(&v1alpha1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Broker.Name}})
	f.start(shared.Namespace)
	f.awaitRefused(f.create("orders", nil), v1alpha1.ReasonBrokerNotFound, kstatus.InProgressStatus)
}
