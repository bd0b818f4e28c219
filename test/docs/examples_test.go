package docs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/internal/kubetest"
)

const yamlBuffer = 4096

// examples are the objects in the YAML blocks of a page.
func examples(t *testing.T, page string) []*unstructured.Unstructured {
	t.Helper()

	var found []*unstructured.Unstructured

	for i, block := range strings.Split(page, "\n```yaml\n") {
		if i == 0 {
			continue
		}

		text, _, isClosed := strings.Cut(block, "\n```\n")
		if !isClosed {
			t.Fatal("a YAML block has no end")
		}

		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), yamlBuffer)

		for {
			object := &unstructured.Unstructured{}

			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}

			if err != nil {
				t.Fatalf("YAML block %d: %v", i, err)
			}

			found = append(found, object)
		}
	}

	return found
}

// TestExamplesAreAccepted has the API server look at every example, unknown fields and all, without storing it.
func TestExamplesAreAccepted(t *testing.T) {
	t.Parallel()

	config := kubetest.Start(t)
	namespace := kubetest.Namespace(t, config)

	plain, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	api := client.WithFieldValidation(client.NewDryRunClient(plain), "Strict")

	for _, path := range pages(t) {
		for i, example := range examples(t, read(t, path)) {
			t.Run(fmt.Sprintf("%s/%d", path, i+1), func(t *testing.T) {
				t.Parallel()

				example.SetNamespace(namespace)

				if err := api.Create(t.Context(), example); err != nil {
					t.Errorf("%s %s: %v", example.GetKind(), example.GetName(), err)
				}
			})
		}
	}
}

func TestManualsHaveExamples(t *testing.T) {
	t.Parallel()

	for _, kind := range kinds {
		found := 0

		for _, example := range examples(t, section(t, manual(t, kind), "Example")) {
			if strings.EqualFold(example.GetKind(), kind) {
				found++
			}
		}

		if found < 2 {
			t.Errorf("the manual of %s has %d examples", kind, found)
		}
	}
}
