package broker_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/pgtest"
)

// stuck makes a pod of one of a Broker's components whose image cannot be pulled.
func (f *fixture) stuck(name, broker, component string) {
	f.t.Helper()

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: map[string]string{
			"app.kubernetes.io/name": "deadletter", "app.kubernetes.io/instance": broker,
			"app.kubernetes.io/component": component,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: component, Image: "x"}}},
	}
	f.create(pod)

	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: component, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}
	if err := f.client.Status().Update(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
}

// says checks that a condition's message names what keeps a pod from starting.
func (f *fixture) says(found *v1alpha1.Broker, kind, want string) {
	f.t.Helper()

	condition := apimeta.FindStatusCondition(found.Status.Conditions, kind)
	if condition == nil || !strings.Contains(condition.Message, want) {
		f.t.Errorf("%s is %+v, want a message with %q", kind, condition, want)
	}
}

func TestStatusTellsWhyPostgresIsNotUp(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	key := f.broker("orders", managed())
	found := f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
	f.says(found, v1alpha1.ConditionReady, "It has no pod yet")

	f.stuck("orders-postgres-0", "orders", "postgres")

	found = f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionDatabaseReady} {
		f.says(found, kind, `Pod "orders-postgres-0" does not start: ImagePullBackOff.`)
	}
}

func TestStatusTellsWhyTheAPIDoesNotServe(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("pg-app", pgtest.Database(t))

	key := f.broker("orders", fromSecret("pg-app"))
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	f.stuck("orders-api-1", "orders", "api")
	f.stuck("other-api-1", "other", "api")

	result, err := f.reconcile(key)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("result %+v, error %v: pods wake nobody", result, err)
	}

	found := f.check(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAvailable} {
		f.says(found, kind, `Pod "orders-api-1" does not start: ImagePullBackOff.`)
	}

	f.rollOut("orders-api")

	found = f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)
	if message := apimeta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionReady).Message; strings.Contains(
		message, "orders-api-1") {
		t.Errorf("a Broker that serves says %q", message)
	}
}
