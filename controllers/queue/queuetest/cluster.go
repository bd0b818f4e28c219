// Package queuetest gives tests of controllers a namespace on a real Kubernetes API with a Broker in it, whose database
// is a real Postgres that can be cut off.
package queuetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/internal/kubetest"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

// Endpoint is the endpoint of the Broker.
const Endpoint = "http://default.example.svc:8080"

const (
	schema           = "deadletter"
	statementTimeout = 5 * time.Second
	stopTimeout      = 30 * time.Second
)

// Cluster is what one test works with.
type Cluster struct {
	Config *rest.Config
	// Client reads and writes without a cache.
	Client    client.Client
	Namespace string
	// Broker is the Broker `default` of the namespace, connected in Registry through Gate.
	Broker   types.NamespacedName
	Registry *databases.Registry
	Gate     *Gate
	// URL is the Broker's database, and Store a connection of the test's own to it.
	URL   string
	Store *store.Store
	// Writes counts what managers write.
	Writes *Writes

	scheme *runtime.Scheme
}

// New creates a namespace with a ready Broker `default`.
func New(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{Config: kubetest.Start(t), Gate: &Gate{}, Writes: &Writes{}, scheme: runtime.NewScheme()}
	err := errors.Join(v1alpha1.AddToScheme(c.scheme), appsv1.AddToScheme(c.scheme), corev1.AddToScheme(c.scheme),
		eventsv1.AddToScheme(c.scheme))
	if err != nil {
		t.Fatal(err)
	}
	c.Config.QPS = -1
	c.Client, err = client.New(c.Config, client.Options{Scheme: c.scheme})
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace = kubetest.Namespace(t, c.Config)
	c.Registry = databases.New(databases.Options{Dial: c.Gate.Dial, StatementTimeout: statementTimeout})
	t.Cleanup(c.Registry.Close)
	c.URL = pgtest.Database(t)
	c.Broker = types.NamespacedName{Namespace: c.Namespace, Name: v1alpha1.DefaultBrokerName}
	c.Connect(t, c.Broker, c.URL)
	c.Store, err = store.Open(t.Context(), store.Options{DatabaseURL: c.URL, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Store.Close)
	c.CreateBroker(t, c.Broker, v1alpha1.AllowedNamespaces{})
	return c
}

// Connect migrates a database and connects the registry to it.
func (c *Cluster) Connect(t testing.TB, broker types.NamespacedName, url string) {
	t.Helper()
	target := databases.Config{URL: url, Schema: schema}
	if _, err := c.Registry.Migrate(t.Context(), broker, target, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Registry.Connect(t.Context(), broker, target); err != nil {
		t.Fatal(err)
	}
}

// CreateBroker creates a Broker as it looks when its own controller is done with it.
func (c *Cluster) CreateBroker(t testing.TB, key types.NamespacedName, allowed v1alpha1.AllowedNamespaces) {
	t.Helper()
	broker := &v1alpha1.Broker{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: v1alpha1.BrokerSpec{
			Database: v1alpha1.BrokerDatabase{
				SecretRef: v1alpha1.SecretKeyReference{Name: "database", Key: v1alpha1.DefaultSecretKey},
			},
			AllowedNamespaces: allowed,
		},
	}
	if err := c.Client.Create(t.Context(), broker); err != nil {
		t.Fatal(err)
	}
	c.SetBroker(t, key, metav1.ConditionTrue)
}

// SetBroker sets the Broker's DatabaseReady, SchemaReady and Available, as its controller would.
func (c *Cluster) SetBroker(t testing.TB, key types.NamespacedName, ready metav1.ConditionStatus) {
	t.Helper()
	c.setBroker(t, key, ready, v1alpha1.ConditionDatabaseReady, v1alpha1.ConditionSchemaReady, v1alpha1.ConditionAvailable)
}

// SetAvailable sets the Broker's Available alone: its queue API has come or gone.
func (c *Cluster) SetAvailable(t testing.TB, key types.NamespacedName, available metav1.ConditionStatus) {
	t.Helper()
	c.setBroker(t, key, available, v1alpha1.ConditionAvailable)
}

func (c *Cluster) setBroker(t testing.TB, key types.NamespacedName, is metav1.ConditionStatus, conditions ...string) {
	t.Helper()
	broker := &v1alpha1.Broker{}
	if err := c.Client.Get(t.Context(), key, broker); err != nil {
		t.Fatal(err)
	}
	before := broker.DeepCopy()
	for _, conditionType := range conditions {
		apimeta.SetStatusCondition(&broker.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: is, Reason: "Test", ObservedGeneration: broker.Generation,
		})
	}
	broker.Status.Endpoint = Endpoint
	broker.Status.ObservedGeneration = broker.Generation
	if err := c.Client.Status().Patch(t.Context(), broker, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// Start runs a manager over the namespace, and others, until stop is called or the test ends.
func (c *Cluster) Start(t testing.TB, setup func(ctrl.Manager) error, others ...string) (stop func()) {
	t.Helper()
	namespaces := map[string]cache.Config{c.Namespace: {}}
	for _, other := range others {
		namespaces[other] = cache.Config{}
	}
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{
		Scheme:                 c.scheme,
		Logger:                 logr.Discard(),
		Cache:                  cache.Options{DefaultNamespaces: namespaces},
		NewClient:              c.Writes.newClient,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		// A process runs one manager; the tests of a package run many.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("manager: %v", err)
			}
		case <-time.After(stopTimeout):
			t.Error("the manager does not stop")
		}
	}
	t.Cleanup(stop)
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache does not fill")
	}
	return stop
}

// Events returns the reasons of the Events about an object, with their notes.
func (c *Cluster) Events(ctx context.Context, object client.Object) (map[string]string, error) {
	var list eventsv1.EventList
	if err := c.Client.List(ctx, &list, client.InNamespace(object.GetNamespace())); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for i := range list.Items {
		event := &list.Items[i]
		if event.Regarding.Name == object.GetName() {
			found[event.Type+" "+event.Reason] += event.Note
		}
	}
	return found, nil
}
