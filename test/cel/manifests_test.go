package cel

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/internal/kubetest"
)

// TestManifestsAreAccepted sends what config renders to, with unknown fields refused, and holds the operator's pod to
// the restricted security standard that its namespace enforces.
func TestManifestsAreAccepted(t *testing.T) {
	t.Parallel()

	api, namespace := connect(t)

	t.Run("samples", func(t *testing.T) {
		t.Parallel()

		for _, object := range kubetest.Render(t, "config/samples") {
			object.SetNamespace(namespace)

			if err := api.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	})

	t.Run("default", func(t *testing.T) {
		t.Parallel()

		seen := map[string]int{}

		for _, object := range kubetest.Render(t, "config/default") {
			seen[object.GetKind()]++
			apply(t, api, object)

			if object.GetKind() == "Deployment" {
				checkPod(t, api, object)
			}
		}

		if seen["CustomResourceDefinition"] != len(kinds) || seen["Broker"] != 1 || seen["Deployment"] != 1 {
			t.Errorf("config/default holds %v", seen)
		}
	})
}

// apply stores the Namespace, without which nothing else is let in, and tries the rest out.
func apply(t *testing.T, api client.Client, object *unstructured.Unstructured) {
	t.Helper()

	options := []client.ApplyOption{client.ForceOwnership}
	if object.GetKind() != "Namespace" {
		options = append(options, client.DryRunAll)
	}

	if err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// checkPod makes a pod of the Deployment's template, and one that gives up a part of its restrictions to see that they
// are asked for.
func checkPod(t *testing.T, api client.Client, deployment *unstructured.Unstructured) {
	t.Helper()

	template, _ := find(deployment.Object, []string{"spec", "template"}).(map[string]any)

	pod := asObject(map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]})
	pod.SetNamespace(deployment.GetNamespace())
	pod.SetName("pod")

	if err := api.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Error(err)
	}

	unstructured.RemoveNestedField(pod.Object, "spec", "securityContext", "runAsNonRoot")

	err := api.Create(t.Context(), pod, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("the namespace takes pods that may run as root: %v", err)
	}
}

// TestRolesFollowTheKinds checks that every kind has a viewer and an editor role, that viewers cannot change anything,
// and that none of them is aggregated unless asked for.
func TestRolesFollowTheKinds(t *testing.T) {
	t.Parallel()

	roles := map[string]*unstructured.Unstructured{}

	for _, object := range kubetest.Render(t, "config/rbac") {
		if object.GetKind() == "ClusterRole" {
			roles[object.GetName()] = object
		}
	}

	for _, kind := range kinds {
		for role, changes := range map[string]bool{"viewer": false, "editor": true} {
			name := fmt.Sprintf("deadletter-%s-%s", strings.ToLower(kind), role)

			object, found := roles[name]
			if !found {
				t.Errorf("no role %s", name)
				continue
			}

			if len(object.GetLabels()) > 0 {
				t.Errorf("%s is aggregated: %v", name, object.GetLabels())
			}

			text := fmt.Sprint(object.Object["rules"])
			for _, verb := range []string{"create", "delete", "patch", "update"} {
				if strings.Contains(text, verb) != changes {
					t.Errorf("%s: may %s: want %t: %s", name, verb, changes, text)
				}
			}
		}
	}
}
