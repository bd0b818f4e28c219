package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestExpand(t *testing.T) {
	t.Parallel()

	known := map[string]string{"A": "1", "LONG_NAME": "$(A)"}
	lookup := func(name string) (string, bool) {
		value, found := known[name]

		return value, found
	}

	for text, want := range map[string]string{
		"":                     "",
		"plain":                "plain",
		"$(A)":                 "1",
		"[$(A)]:$(A)":          "[1]:1",
		"$(LONG_NAME)":         "$(A)",
		"$(MISSING)/$(A)":      "$(MISSING)/1",
		"$$(A)":                "$(A)",
		"$$$(A)":               "$1",
		"$$$$(A)":              "$$(A)",
		"$":                    "$",
		"$$":                   "$",
		"cost $5":              "cost $5",
		"$(A":                  "$(A",
		"$A)":                  "$A)",
		"$()":                  "$()",
		"$(MISSING) and $(A) ": "$(MISSING) and 1 ",
	} {
		if got := expand(text, lookup); got != want {
			t.Errorf("expand(%q) = %q, want %q", text, got, want)
		}
	}
}

func testSources() *sources {
	objects := func(kind string, contents map[string]map[string]string) func(string) (map[string]string, error) {
		return func(name string) (map[string]string, error) {
			content, found := contents[name]
			if !found {
				return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
			}

			return content, nil
		}
	}

	return &sources{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "api-1", Namespace: "shop", UID: "u1",
				Labels:      map[string]string{"app": "api"},
				Annotations: map[string]string{"example.com/note": "hello"},
			},
			Spec: corev1.PodSpec{ServiceAccountName: "runner"},
		},
		address:   netip.MustParseAddr("127.0.9.1"),
		secret:    objects("secrets", map[string]map[string]string{"db": {"uri": "postgres://", "other": "x"}}),
		configMap: objects("configmaps", map[string]map[string]string{"settings": {"LEVEL": "debug"}}),
	}
}

func secretKey(name, key string, optional bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional,
	}}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func TestEnvironmentResolvesInOrder(t *testing.T) {
	t.Parallel()

	container := &corev1.Container{
		EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
			{Prefix: "DB_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}}},
			{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}, Optional: new(true),
			}},
		},
		Env: []corev1.EnvVar{
			{Name: "EARLY", Value: "$(POD_IP)"},
			{Name: "POD_IP", ValueFrom: field("status.podIP")},
			{Name: "LISTEN", Value: ":8080"},
			{Name: "URL", ValueFrom: secretKey("db", "uri", false)},
			{Name: "MAYBE", ValueFrom: secretKey("db", "missing", true)},
			{Name: "NEITHER", ValueFrom: secretKey("missing", "key", true)},
			{Name: "LEVEL", Value: "$(LEVEL)-more"},
			{Name: "WHO", ValueFrom: field("metadata.labels['app']")},
			{Name: "NOTE", ValueFrom: field("metadata.annotations['example.com/note']")},
			{Name: "NODE", ValueFrom: field("spec.nodeName")},
			{Name: "NAME", ValueFrom: field("metadata.name")},
			{Name: "NAMESPACE", ValueFrom: field("metadata.namespace")},
			{Name: "ACCOUNT", ValueFrom: field("spec.serviceAccountName")},
		},
	}

	env, err := testSources().environment(container)
	if err != nil {
		t.Fatal(err)
	}

	want := []string{
		"LEVEL=debug-more", "DB_other=x", "DB_uri=postgres://", "EARLY=$(POD_IP)", "POD_IP=127.0.9.1",
		"LISTEN=127.0.9.1:8080", "URL=postgres://", "WHO=api", "NOTE=hello", "NODE=host", "NAME=api-1",
		"NAMESPACE=shop", "ACCOUNT=runner",
	}
	if diff := cmp.Diff(want, env.list()); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentRefuses(t *testing.T) {
	t.Parallel()

	for want, from := range map[string]*corev1.EnvVarSource{
		`variable X: secrets "missing" not found`:                secretKey("missing", "key", false),
		`variable X: Secret "db" has no key "password"`:          secretKey("db", "password", false),
		`variable X: the field "spec.hostname" is not supported`: field("spec.hostname"),
		`variable X: only secretKeyRef`:                          {ResourceFieldRef: &corev1.ResourceFieldSelector{}},
	} {
		container := &corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: from}}}

		_, err := testSources().environment(container)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
