package cel

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/kubetest"
)

const fieldOwner = "cel-test"

var kinds = []string{"Broker", "Queue", "Replay"}

func TestMain(m *testing.M) {
	kubetest.Main(m)
}

// connect returns a client of the shared API server, as strict as kubectl about unknown fields, and a namespace of the
// test's own.
func connect(t *testing.T) (client.Client, string) {
	t.Helper()

	config := kubetest.Start(t)
	namespace := kubetest.Namespace(t, config)

	return newClient(t, config), namespace
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()

	// The tests wait for nothing, so a limit on requests would only make them slow.
	config.QPS = -1

	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}

	plain, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}

	return client.WithFieldValidation(client.WithFieldOwner(plain, fieldOwner), "Strict")
}

// newObject returns an object of the kind; a nil spec leaves the field out.
func newObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)

	if spec != nil {
		object.Object["spec"] = spec
	}

	return object
}

func asObject(content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: content}
}
