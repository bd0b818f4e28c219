package status_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/controllers/status/statustest"
	"deadletter.dev/deadletter/internal/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

type fixture struct {
	client   client.Client
	recorder *events.FakeRecorder
	writer   *status.Writer
	broker   *v1alpha1.Broker
}

func newFixture(t *testing.T) *fixture {
	t.Helper()

	config := kubetest.Start(t)
	scheme := runtime.NewScheme()

	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}

	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}

	recorder := events.NewFakeRecorder(100)
	broker := &v1alpha1.Broker{
		ObjectMeta: metav1.ObjectMeta{Namespace: kubetest.Namespace(t, config), Name: "orders"},
		Spec:       v1alpha1.BrokerSpec{Database: v1alpha1.BrokerDatabase{Managed: &v1alpha1.ManagedDatabase{}}},
	}

	if err := direct.Create(t.Context(), broker); err != nil {
		t.Fatal(err)
	}

	return &fixture{direct, recorder, status.NewWriter(direct, recorder), broker}
}

// pass runs one reconciliation and returns what it told the work queue.
func (f *fixture) pass(
	t *testing.T, outcome status.Outcome, failure error, steps ...func(*status.Pass),
) (ctrl.Result, error) {
	t.Helper()
	f.refresh(t)

	pass := f.writer.Begin(f.broker)
	for _, step := range steps {
		step(pass)
	}

	result, err := pass.Finish(t.Context(), outcome, failure)

	f.refresh(t)

	return result, err
}

func (f *fixture) refresh(t *testing.T) {
	t.Helper()

	var fresh v1alpha1.Broker
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(f.broker), &fresh); err != nil {
		t.Fatal(err)
	}

	f.broker = &fresh
}

func (f *fixture) check(t *testing.T, want kstatus.Status) {
	t.Helper()

	if err := statustest.Check(f.broker, want); err != nil {
		t.Error(err)
	}
}

func (f *fixture) events() (got []string) {
	for {
		select {
		case line := <-f.recorder.Events:
			got = append(got, line)
		default:
			return got
		}
	}
}

func (f *fixture) condition(conditionType string) *metav1.Condition {
	return apimeta.FindStatusCondition(f.broker.Status.Conditions, conditionType)
}
