package controllers_test

import (
	"testing"

	. "github.com/onsi/gomega" //nolint:revive // gomega reads as prose
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers"
	"deadletter.dev/deadletter/internal/kubetest"
	"deadletter.dev/deadletter/internal/pgtest"
)

// TestRightsInTheWatchedNamespacesAreEnough runs an operator that may do nothing outside of two namespaces, and is to
// use a default Broker in a third.
func TestRightsInTheWatchedNamespacesAreEnough(t *testing.T) {
	t.Parallel()

	var shop string

	o := start(t, func(config *controllers.Config) {
		shop = kubetest.Namespace(t, config.Kubernetes)
		user := "namespaced-" + config.OperatorNamespace

		become(t, config, user)
		bind(t, config.Kubernetes, user, config.OperatorNamespace)
		bind(t, config.Kubernetes, user, shop)

		config.WatchNamespaces = append(config.WatchNamespaces, shop)
		config.DefaultBroker = types.NamespacedName{Namespace: "elsewhere", Name: "default"}
	})

	o.secret("pg-app", pgtest.Database(t))
	o.create(&v1alpha1.Broker{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Spec: v1alpha1.BrokerSpec{
			Database: v1alpha1.BrokerDatabase{SecretRef: v1alpha1.SecretKeyReference{Name: "pg-app"}},
			AllowedNamespaces: v1alpha1.AllowedNamespaces{
				From:     v1alpha1.NamespacesFromSelector,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}},
			},
		},
	})
	o.eventuallyReason("shared", v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrated)

	queue := func(name string, ref v1alpha1.BrokerReference) client.ObjectKey {
		object := &v1alpha1.Queue{
			ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name}, Spec: v1alpha1.QueueSpec{BrokerRef: ref},
		}
		o.Expect(o.client.Create(t.Context(), object)).To(Succeed())

		return client.ObjectKeyFromObject(object)
	}
	eventually := func(key client.ObjectKey, reason string) {
		o.Eventually(func(g Gomega) {
			var found v1alpha1.Queue
			g.Expect(o.client.Get(t.Context(), key, &found)).To(Succeed())

			ready := apimeta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionReady)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(ready.Reason).To(Equal(reason), ready.Message)
		}, patience, interval).Should(Succeed())
	}

	shared := v1alpha1.BrokerReference{Namespace: o.namespace, Name: "shared"}

	eventually(queue("nobody", v1alpha1.BrokerReference{}), v1alpha1.ReasonBrokerNotFound)
	unseen := v1alpha1.BrokerReference{Namespace: "elsewhere", Name: "x"}
	eventually(queue("unseen", unseen), v1alpha1.ReasonRefNotPermitted)
	eventually(queue("refused", shared), v1alpha1.ReasonRefNotPermitted)

	var namespace corev1.Namespace
	o.Expect(o.client.Get(t.Context(), client.ObjectKey{Name: shop}, &namespace)).To(Succeed())
	namespace.Labels["team"] = "red"
	o.Expect(o.client.Update(t.Context(), &namespace)).To(Succeed())

	orders := queue("orders", shared)
	eventually(orders, v1alpha1.ReasonBrokerNotAvailable)
	o.rollOut("shared-api")
	eventually(orders, v1alpha1.ReasonReady)

	// The right to read what a gate waits for: without it, the reason would be another.
	replay := &v1alpha1.Replay{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "gated"},
		Spec: v1alpha1.ReplaySpec{
			QueueRef: v1alpha1.QueueReference{Name: orders.Name}, Mode: v1alpha1.ReplayExecute,
			Selector: v1alpha1.ReplaySelector{Scope: v1alpha1.ReplayScopeAll},
			Gate: v1alpha1.ReplayGate{
				DeploymentRef: v1alpha1.DeploymentReference{Name: "worker"}, ImageTag: "v2",
			},
		},
	}
	o.Expect(o.client.Create(t.Context(), replay)).To(Succeed())
	o.Eventually(func(g Gomega) {
		g.Expect(o.client.Get(t.Context(), client.ObjectKeyFromObject(replay), replay)).To(Succeed())

		outcome := apimeta.FindStatusCondition(replay.Status.Conditions, v1alpha1.ConditionSucceeded)
		g.Expect(outcome).NotTo(BeNil())
		g.Expect(outcome.Reason).To(Equal(v1alpha1.ReasonWaitingForGate), outcome.Message)
	}, patience, interval).Should(Succeed())

	// The rights to carry a deletion out.
	var found v1alpha1.Queue
	o.Expect(o.client.Get(t.Context(), orders, &found)).To(Succeed())
	o.Expect(o.client.Delete(t.Context(), &found)).To(Succeed())
	o.Eventually(func() error {
		return client.IgnoreNotFound(o.client.Get(t.Context(), orders, &found))
	}, patience, interval).Should(Succeed())
}
