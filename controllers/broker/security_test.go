package broker_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
)

func newScale(replicas int32) *autoscalingv1.Scale {
	return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
}

func versionsOf(t *testing.T, list client.ObjectList) map[string]string {
	t.Helper()

	versions := make(map[string]string)

	err := apimeta.EachListItem(list, func(item runtime.Object) error {
		object, err := apimeta.Accessor(item)
		if err == nil {
			versions[mustJSON(t, []string{typeName(item), object.GetName()})] = object.GetResourceVersion()
		}

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return versions
}

func TestPodsPassTheRestrictedStandard(t *testing.T) {
	t.Parallel()

	f := newFixture(t)

	var namespace corev1.Namespace
	if err := f.client.Get(t.Context(), client.ObjectKey{Name: f.namespace}, &namespace); err != nil {
		t.Fatal(err)
	}

	namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	if err := f.client.Update(t.Context(), &namespace); err != nil {
		t.Fatal(err)
	}

	key := f.broker("orders", managed())
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
	f.startManaged(key)
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)

	var set appsv1.StatefulSet
	f.read("orders-postgres", &set)

	postgres := set.Spec.Template
	postgres.Spec.Volumes = append(postgres.Spec.Volumes, corev1.Volume{
		Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-orders-postgres-0"},
		},
	})

	for name, template := range map[string]corev1.PodTemplateSpec{
		"api": f.deployment("orders-api").Spec.Template, "postgres": postgres,
	} {
		if err := f.admit(name, template); err != nil {
			t.Errorf("%s: %v", name, err)
		}

		container := template.Spec.Containers[0]
		if !*container.SecurityContext.ReadOnlyRootFilesystem || *template.Spec.AutomountServiceAccountToken {
			t.Errorf("%s: a writable root file system, or a token", name)
		}
	}

	// The standard is enforced indeed.
	lax := f.deployment("orders-api").Spec.Template
	lax.Spec.Containers[0].SecurityContext = nil

	if f.admit("lax", lax) == nil {
		t.Error("a pod that breaks the standard is admitted")
	}
}

// admit asks the API server whether it would take a pod.
func (f *fixture) admit(name string, template corev1.PodTemplateSpec) error {
	f.t.Helper()

	return f.client.Create(f.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: name, Labels: template.Labels, Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}, client.DryRunAll)
}

func typeName(item any) string { return fmt.Sprintf("%T", item) }
