package cel

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"deadletter.dev/deadletter/internal/kubetest"
)

const ratchetGroup = "ratchet.example.com"

// TestRulesMayBeTightened stores a Queue that breaks the rules of today, as one from before they existed would, and
// edits it under them: what is not touched must not stand in the way, and immutability holds all the same.
func TestRulesMayBeTightened(t *testing.T) {
	t.Parallel()

	config := kubetest.Start(t)
	api, namespace := newClient(t, config), kubetest.Namespace(t, config)

	install := func(definition *apiextensionsv1.CustomResourceDefinition) {
		_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
			CRDs: []*apiextensionsv1.CustomResourceDefinition{definition},
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	install(withoutRules(inGroup(loadDefinition(t, "Queue"))))

	spec := map[string]any{
		"queueName":  "a\nb",
		"maxRetries": int64(99),
		"backoff":    map[string]any{"initialSeconds": int64(11), "maxSeconds": int64(10)},
	}

	old := ratchetQueue(namespace, "old", spec)
	if err := api.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}

	install(inGroup(loadDefinition(t, "Queue")))
	gomega.NewWithT(t).Eventually(t.Context(), func() error {
		return api.Create(t.Context(), ratchetQueue(namespace, "new", spec), client.DryRunAll)
	}).WithTimeout(time.Minute).Should(gomega.HaveOccurred(), "the rules never came into force")

	tests := map[string]struct {
		path   []string
		value  any
		denied string
	}{
		"another field": {path: []string{"spec", "state"}, value: "Paused"},
		"a bound": {
			path: []string{"spec", "maxRetries"}, value: int64(98), denied: "should be less than or equal to 10",
		},
		"what a rule looks at": {
			path: []string{"spec", "backoff", "initialSeconds"}, value: int64(12), denied: "must be at most",
		},
		"an immutable field": {
			path: []string{"spec", "queueName"}, value: "b", denied: "`queueName` is immutable",
		},
		"a repair of the bound": {path: []string{"spec", "maxRetries"}, value: int64(9)},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			edited := old.DeepCopy()
			put(edited.Object, tc.path, tc.value)

			err := api.Update(t.Context(), edited, client.DryRunAll)

			switch {
			case tc.denied == "" && err != nil:
				t.Error(err)
			case tc.denied != "" && (err == nil || !strings.Contains(err.Error(), tc.denied)):
				t.Errorf("want a refusal with %q, got %v", tc.denied, err)
			}
		})
	}
}

func ratchetQueue(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	queue := newObject("Queue", namespace, name, spec).DeepCopy()
	queue.SetAPIVersion(ratchetGroup + "/v1alpha1")

	return queue
}

// inGroup moves the definition out of the way of the other tests.
func inGroup(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	definition.Spec.Group = ratchetGroup
	definition.Name = definition.Spec.Names.Plural + "." + ratchetGroup
	// The API server would answer for this short name with either group.
	definition.Spec.Names.ShortNames = nil

	return definition
}

func withoutRules(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	root := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	for name, property := range root.Properties {
		root.Properties[name] = lenient(property)
	}

	return definition
}

func lenient(s schema) schema {
	s.XValidations, s.Minimum, s.Maximum, s.MinProperties = nil, nil, nil, nil

	for name, property := range s.Properties {
		s.Properties[name] = lenient(property)
	}

	return s
}
