package kubetest

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const yamlBuffer = 4096

// Render returns the objects that `kubectl apply -k` would send for a folder of the repository, such as
// "config/default".
func Render(t testing.TB, folder string) []*unstructured.Unstructured {
	t.Helper()

	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}

	out, err := exec.CommandContext(t.Context(), Kubectl(t), "kustomize", filepath.Join(root, folder)).Output()
	if err != nil {
		t.Fatalf("render %s: %v: %s", folder, err, stderrOf(err))
	}

	var objects []*unstructured.Unstructured

	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), yamlBuffer)

	for {
		object := &unstructured.Unstructured{}

		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}

		if err != nil {
			t.Fatalf("render %s: %v", folder, err)
		}

		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Kubectl returns the path of a kubectl that fits the control plane: the one built with it, else the installed one.
func Kubectl(t testing.TB) string {
	t.Helper()

	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}

	binaries, err := assets(root)
	if err != nil {
		t.Fatal(err)
	}

	if path, err := exec.LookPath(filepath.Join(binaries, "kubectl")); err == nil {
		return path
	}

	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal(err)
	}

	return path
}

func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(exit.Stderr)
	}

	return ""
}
