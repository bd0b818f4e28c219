package controllers_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega" //nolint:revive // gomega reads as prose
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers"
	"deadletter.dev/deadletter/internal/kubetest"
	"deadletter.dev/deadletter/internal/pgtest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	patience = 60 * time.Second
	interval = 50 * time.Millisecond
)

// operator is a running operator that watches one namespace.
type operator struct {
	*WithT

	t         *testing.T
	client    client.Client
	namespace string
	probes    string
	stop      context.CancelFunc
	stopped   chan error
}

func start(t *testing.T, change func(*controllers.Config)) *operator {
	t.Helper()

	rest := kubetest.Start(t)

	scheme, err := controllers.NewScheme()
	if err != nil {
		t.Fatal(err)
	}

	direct, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}

	o := &operator{
		WithT: NewWithT(t), t: t, client: direct, namespace: kubetest.Namespace(t, rest), probes: freeAddress(t),
		stopped: make(chan error, 1),
	}
	config := controllers.Config{
		Kubernetes: rest, Logger: slog.New(slog.DiscardHandler), ProbeAddress: o.probes, OperatorNamespace: o.namespace,
		Image: "registry.example/deadletter:v1", WatchNamespaces: []string{o.namespace},
	}

	if change != nil {
		change(&config)
	}

	ctx, cancel := context.WithCancel(t.Context())
	o.stop = cancel

	go func() { o.stopped <- controllers.Run(ctx, config) }()

	t.Cleanup(func() {
		cancel()

		if err := <-o.stopped; err != nil {
			t.Error(err)
		}
	})

	return o
}

func freeAddress(t *testing.T) string {
	t.Helper()

	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}

	return listener.Addr().String()
}

func (o *operator) create(object client.Object) {
	o.t.Helper()
	object.SetNamespace(o.namespace)
	o.Expect(o.client.Create(o.t.Context(), object)).To(Succeed())
}

func (o *operator) broker(name, secret string) {
	o.t.Helper()
	o.create(&v1alpha1.Broker{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.BrokerSpec{Database: v1alpha1.BrokerDatabase{
			SecretRef: v1alpha1.SecretKeyReference{Name: secret},
		}},
	})
}

func (o *operator) secret(name, uri string) *corev1.Secret {
	o.t.Helper()

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"uri": []byte(uri)}}
	o.create(secret)

	return secret
}

func (o *operator) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: o.namespace, Name: name}
}

// eventuallyReason waits until a Broker's condition has a reason.
func (o *operator) eventuallyReason(name, kind, reason string) {
	o.t.Helper()
	o.Eventually(func(g Gomega) {
		var broker v1alpha1.Broker
		g.Expect(o.client.Get(o.t.Context(), o.key(name), &broker)).To(Succeed())
		condition := apimeta.FindStatusCondition(broker.Status.Conditions, kind)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(reason), condition.Message)
	}, patience, interval).Should(Succeed())
}

// rollOut does the work of the Deployment's controller, and returns the pods' template.
func (o *operator) rollOut(name string) corev1.PodTemplateSpec {
	o.t.Helper()

	var deployment appsv1.Deployment

	o.Eventually(func(g Gomega) {
		g.Expect(o.client.Get(o.t.Context(), o.key(name), &deployment)).To(Succeed())
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
		}
		g.Expect(o.client.Status().Update(o.t.Context(), &deployment)).To(Succeed())
	}, patience, interval).Should(Succeed())

	return deployment.Spec.Template
}

func TestWhatWakesABroker(t *testing.T) {
	t.Parallel()

	o := start(t, nil)
	address := pgtest.Database(t)

	// Its Secret, when it comes late.
	o.broker("orders", "pg-app")
	o.eventuallyReason("orders", v1alpha1.ConditionReady, v1alpha1.ReasonSecretNotFound)
	secret := o.secret("pg-app", address)
	o.eventuallyReason("orders", v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrated)

	// Its Deployment.
	before := o.rollOut("orders-api")
	o.eventuallyReason("orders", v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	// Its Secret, when it changes.
	secret.Data["uri"] = []byte(address + "&connect_timeout=7")
	o.Expect(o.client.Update(t.Context(), secret)).To(Succeed())
	o.eventuallyReason("orders", v1alpha1.ConditionReady, v1alpha1.ReasonProgressing)

	after := o.rollOut("orders-api")
	o.Expect(after.Annotations).NotTo(Equal(before.Annotations))
	o.eventuallyReason("orders", v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	// What it owns, when somebody takes it away.
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: "orders-api"}}
	o.Expect(o.client.Delete(t.Context(), service)).To(Succeed())
	o.Eventually(func() error {
		return o.client.Get(t.Context(), o.key("orders-api"), service)
	}, patience, interval).Should(Succeed())

	// Another Broker, when it lets go of the schema.
	o.broker("second", "pg-app")
	o.eventuallyReason("second", v1alpha1.ConditionReady, v1alpha1.ReasonConflict)
	first := &v1alpha1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: "orders"}}
	o.Expect(o.client.Delete(t.Context(), first)).To(Succeed())
	o.eventuallyReason("second", v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrated)
}

func TestAQueueAndItsBrokerComeTogether(t *testing.T) {
	t.Parallel()

	o := start(t, nil)
	o.create(&v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "invoices"}})
	o.broker("default", "pg-app")
	o.secret("pg-app", pgtest.Database(t))
	o.rollOut("default-api")

	o.Eventually(func(g Gomega) {
		var queue v1alpha1.Queue
		g.Expect(o.client.Get(t.Context(), o.key("invoices"), &queue)).To(Succeed())
		g.Expect(apimeta.IsStatusConditionTrue(queue.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue())
	}, patience, interval).Should(Succeed())
}

func TestEventsAreRecorded(t *testing.T) {
	t.Parallel()

	o := start(t, nil)
	o.secret("pg-app", pgtest.Database(t))
	o.broker("orders", "pg-app")

	o.Eventually(func(g Gomega) {
		var list eventsv1.EventList
		g.Expect(o.client.List(t.Context(), &list, client.InNamespace(o.namespace))).To(Succeed())

		var reasons []string
		for _, event := range list.Items {
			g.Expect(event.Regarding.Kind).To(Equal("Broker"))

			reasons = append(reasons, event.Reason)
		}

		g.Expect(reasons).To(ContainElements(v1alpha1.ReasonConnected, v1alpha1.ReasonMigrated))
	}, patience, interval).Should(Succeed())
}

func TestProbes(t *testing.T) {
	t.Parallel()

	o := start(t, nil)

	for _, path := range []string{"/healthz", "/readyz"} {
		o.Eventually(func(g Gomega) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+o.probes+path, http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())

			response, err := http.DefaultClient.Do(request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.StatusCode).To(Equal(http.StatusOK), path)
		}, patience, interval).Should(Succeed())
	}
}

func TestTheLeaseIsGivenUpAtTheEnd(t *testing.T) {
	t.Parallel()

	o := start(t, func(config *controllers.Config) { config.LeaderElect = true })

	var lease coordinationv1.Lease

	holder := func() string {
		if err := o.client.Get(t.Context(), o.key("deadletter-operator"), &lease); err != nil {
			return ""
		}

		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	o.Eventually(holder, patience, interval).ShouldNot(BeEmpty())

	o.stop()
	o.Eventually(holder, patience, interval).Should(BeEmpty())
}

func TestRunRefusesAnIncompleteConfig(t *testing.T) {
	t.Parallel()

	logger := slog.New(slog.DiscardHandler)
	for name, config := range map[string]controllers.Config{
		"no image":  {Logger: logger, Kubernetes: kubetest.Start(t)},
		"no logger": {Image: "registry.example/deadletter:v1", Kubernetes: kubetest.Start(t)},
	} {
		if err := controllers.Run(t.Context(), config); err == nil {
			t.Errorf("%s: the operator starts", name)
		}
	}
}
