package broker_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers"
	"deadletter.dev/deadletter/controllers/broker"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/controllers/status/statustest"
	"deadletter.dev/deadletter/internal/kubetest"
	"deadletter.dev/deadletter/internal/pgtest"
)

const testImage = "registry.example/deadletter:v1"

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	kubetest.Main(m)
}

// fixture is a reconciler without a manager, in a namespace of its own: each step is taken by the test.
type fixture struct {
	t          *testing.T
	config     *rest.Config
	client     client.Client
	writes     *atomic.Int64
	namespace  string
	registry   *databases.Registry
	recorder   *events.FakeRecorder
	clock      *clocktesting.FakePassiveClock
	reconciler *broker.Reconciler
	// routes leads the hosts of databases to servers.
	routes sync.Map
}

func newFixture(t *testing.T) *fixture {
	t.Helper()

	config := kubetest.Start(t)

	f := &fixture{
		t: t, config: config, namespace: kubetest.Namespace(t, config),
		recorder: events.NewFakeRecorder(1000),
		clock:    clocktesting.NewFakePassiveClock(time.Now()),
	}
	f.client, f.writes = newClient(t, config)
	f.registry = databases.New(databases.Options{Dial: f.dial, StatementTimeout: 10 * time.Second})
	t.Cleanup(f.registry.Close)
	f.restart()

	return f
}

// restart forgets what only the process knew.
func (f *fixture) restart() {
	f.reconciler = &broker.Reconciler{
		Client: f.client, Reader: f.client, Status: status.NewWriter(f.client, f.recorder),
		Databases: f.registry, Image: testImage, Clock: f.clock,
	}
}

func (f *fixture) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if target, found := f.routes.Load(address); found {
		address, _ = target.(string)
	}

	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// newClient returns a client that counts what it writes.
func newClient(t *testing.T, config *rest.Config) (client.Client, *atomic.Int64) {
	t.Helper()

	scheme, err := controllers.NewScheme()
	if err != nil {
		t.Fatal(err)
	}

	direct, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}

	writes := new(atomic.Int64)

	return counting(direct, writes), writes
}

func (f *fixture) create(object client.Object) {
	f.t.Helper()

	if err := f.client.Create(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
}

// broker creates a Broker in the fixture's namespace.
func (f *fixture) broker(name string, spec v1alpha1.BrokerSpec) client.ObjectKey {
	f.t.Helper()
	f.create(&v1alpha1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Spec: spec})

	return client.ObjectKey{Namespace: f.namespace, Name: name}
}

func managed() v1alpha1.BrokerSpec {
	return v1alpha1.BrokerSpec{Database: v1alpha1.BrokerDatabase{Managed: &v1alpha1.ManagedDatabase{}}}
}

func fromSecret(name string) v1alpha1.BrokerSpec {
	return v1alpha1.BrokerSpec{Database: v1alpha1.BrokerDatabase{SecretRef: v1alpha1.SecretKeyReference{Name: name}}}
}

// secret creates or replaces a Secret with a URI.
func (f *fixture) secret(name, uri string) {
	f.t.Helper()

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Data:       map[string][]byte{"uri": []byte(uri)},
	}

	err := f.client.Create(f.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = f.client.Update(f.t.Context(), secret)
	}

	if err != nil {
		f.t.Fatal(err)
	}
}

// reconcile runs one pass.
func (f *fixture) reconcile(key client.ObjectKey) (ctrl.Result, error) {
	f.t.Helper()

	return f.reconciler.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: key})
}

// step runs one pass that must not fail, and checks the state it leads to.
func (f *fixture) step(key client.ObjectKey, want kstatus.Status, reason string) *v1alpha1.Broker {
	f.t.Helper()

	if _, err := f.reconcile(key); err != nil {
		f.t.Fatal(err)
	}

	return f.check(key, want, reason)
}

// stepRetry runs one pass that must ask for its repetition, and checks the state it leads to.
func (f *fixture) stepRetry(key client.ObjectKey, reason string) *v1alpha1.Broker {
	f.t.Helper()

	if _, err := f.reconcile(key); err == nil {
		f.t.Fatal("the pass asks for no repetition")
	}

	return f.check(key, kstatus.InProgressStatus, reason)
}

func (f *fixture) check(key client.ObjectKey, want kstatus.Status, reason string) *v1alpha1.Broker {
	f.t.Helper()

	found := f.get(key)
	if err := statustest.Check(found, want); err != nil {
		f.t.Errorf("%v\n%+v", err, found.Status)
	}

	f.condition(found, v1alpha1.ConditionReady, "", reason)

	return found
}

// condition checks one condition of a Broker; an empty status is not checked.
func (f *fixture) condition(found *v1alpha1.Broker, kind string, want metav1.ConditionStatus, reason string) {
	f.t.Helper()

	got := apimeta.FindStatusCondition(found.Status.Conditions, kind)
	if got == nil || got.Reason != reason || want != "" && got.Status != want {
		f.t.Errorf("%s is %+v, want %s %s", kind, got, want, reason)
	}
}

func (f *fixture) get(key client.ObjectKey) *v1alpha1.Broker {
	f.t.Helper()

	var found v1alpha1.Broker
	f.read(key.Name, &found)

	return &found
}

func (f *fixture) read(name string, into client.Object) {
	f.t.Helper()

	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, into); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) exists(name string, object client.Object) bool {
	f.t.Helper()

	err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}

	return err == nil
}

// edit changes an object as its owner would.
func edit[T client.Object](f *fixture, name string, object T, change func(T)) {
	f.t.Helper()
	f.read(name, object)
	change(object)

	if err := f.client.Update(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) delete(name string, object client.Object) {
	f.t.Helper()
	object.SetNamespace(f.namespace)
	object.SetName(name)

	if err := f.client.Delete(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
}

// rollOut does the work of the Deployment's controller and of a kubelet.
func (f *fixture) rollOut(name string) {
	f.t.Helper()

	var deployment appsv1.Deployment
	f.read(name, &deployment)

	wanted := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: wanted, UpdatedReplicas: wanted, ReadyReplicas: wanted,
		AvailableReplicas: wanted,
		Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
		}},
	}

	if err := f.client.Status().Update(f.t.Context(), &deployment); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) deployment(name string) *appsv1.Deployment {
	f.t.Helper()

	var deployment appsv1.Deployment
	f.read(name, &deployment)

	return &deployment
}

// serving brings a Broker over an existing database to where nothing is left to do.
func (f *fixture) serving(name string, spec v1alpha1.BrokerSpec) client.ObjectKey {
	f.t.Helper()

	key := f.broker(name, spec)
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	f.rollOut(name + "-api")
	f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)

	return key
}

// events returns the Events recorded since the last call, without their notes.
func (f *fixture) events() (got []string) {
	for {
		select {
		case line := <-f.recorder.Events:
			got = append(got, strings.Join(strings.SplitN(line, " ", 3)[:2], " "))
		default:
			return got
		}
	}
}

// postgres starts a server that only this test uses.
func postgres(t *testing.T) *pgtest.Server {
	t.Helper()

	server, err := pgtest.Start(t.Context(), pgtest.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})

	return server
}

// sql runs a statement as the database's administrator would.
func sql(t *testing.T, address, statement string) {
	t.Helper()

	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}

	_, err = conn.Exec(t.Context(), statement)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// query returns one text.
func query(t *testing.T, address, statement string) (text string) {
	t.Helper()

	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}

	err = conn.QueryRow(t.Context(), statement).Scan(&text)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}

	return text
}

func hasSchema(t *testing.T, address string) bool {
	t.Helper()

	return query(t, address, "SELECT count(*)::text FROM pg_namespace WHERE nspname = 'deadletter'") == "1"
}

// withUser returns the URL for another user.
func withUser(t *testing.T, address, user, password string) string {
	t.Helper()

	parsed := parse(t, address)
	parsed.User = url.UserPassword(user, password)

	return parsed.String()
}

func parse(t *testing.T, address string) *url.URL {
	t.Helper()

	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}

	return parsed
}
