package cel

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// refusal is one cause of an answer of 422.
type refusal struct {
	// Field is the path the API server names.
	Field string `json:"field"`
	// Message is the end of what it says about it.
	Message string `json:"message"`
}

// ruleCase is one object, and perhaps one change of it.
type ruleCase struct {
	Name string `json:"name"`
	// ObjectName is the object's name, when the case is about it.
	ObjectName string `json:"object_name,omitempty"`
	// Spec is created; absent, an object without a spec is.
	Spec map[string]any `json:"spec,omitempty"`
	// Update replaces the spec, once it is created.
	Update map[string]any `json:"update,omitempty"`
	// Denied are all causes for which the last step is refused; absent, it must be accepted.
	Denied []refusal `json:"denied,omitempty"`
	// Stored is the spec that is read back in the end.
	Stored map[string]any `json:"stored,omitempty"`
}

// last is the spec that the case is about.
func (c ruleCase) last() map[string]any {
	if c.Update != nil {
		return c.Update
	}

	return c.Spec
}

func loadCases(t *testing.T, kind string) []ruleCase {
	t.Helper()

	content, err := os.ReadFile(filepath.Join("testdata", strings.ToLower(kind)+".yaml"))
	if err != nil {
		t.Fatal(err)
	}

	var cases []ruleCase
	if err := yaml.UnmarshalStrict(content, &cases); err != nil {
		t.Fatal(err)
	}

	return cases
}

func TestRules(t *testing.T) {
	t.Parallel()

	api, namespace := connect(t)

	for _, kind := range kinds {
		for _, tc := range loadCases(t, kind) {
			t.Run(kind+"/"+tc.Name, func(t *testing.T) {
				t.Parallel()
				tc.run(t, api, kind, namespace)
			})
		}
	}
}

func (c ruleCase) run(t *testing.T, api client.Client, kind, namespace string) {
	t.Helper()

	object := newObject(kind, namespace, c.ObjectName, c.Spec)
	if c.ObjectName == "" {
		object.SetGenerateName("case-")
	}

	err := api.Create(t.Context(), object)

	if c.Update != nil {
		if err != nil {
			t.Fatalf("create, before the update: %v", err)
		}

		object.Object["spec"] = c.Update
		err = api.Update(t.Context(), object)
	}

	if d := diff.Diff(c.Denied, refusals(t, err, c.Denied)); d != "" {
		t.Errorf("refused for (-want +got):\n%s\n%v", d, err)
	}

	if c.Stored != nil {
		c.checkStored(t, api, object)
	}
}

// checkStored reads the object back rather than trust the answer: what is stored is read through the defaults again.
func (c ruleCase) checkStored(t *testing.T, api client.Client, object *unstructured.Unstructured) {
	t.Helper()

	if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}

	want := map[string]any{"spec": c.Stored, "status": map[string]any{"observedGeneration": int64(-1)}}
	got := map[string]any{"spec": object.Object["spec"], "status": object.Object["status"]}

	if d := diff.Diff(normal(t, want), normal(t, got)); d != "" {
		t.Errorf("stored (-want +got):\n%s", d)
	}
}

// unchecked is how the API server says that it did not come to every rule.
const unchecked = "some validation rules were not checked"

// refusals are the causes of the error, each cut down to the message that is wanted when that is how it ends.
func refusals(t *testing.T, err error, wanted []refusal) []refusal {
	t.Helper()

	if err == nil {
		return nil
	}

	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
		t.Fatalf("want an answer about the object's validity, got %v", err)
	}

	var found []refusal

	for _, cause := range status.Status().Details.Causes {
		if strings.Contains(cause.Message, unchecked) {
			continue
		}

		got := refusal{Field: cause.Field, Message: cause.Message}

		for _, want := range wanted {
			if want.Field == got.Field && strings.HasSuffix(got.Message, want.Message) {
				got.Message = want.Message
			}
		}

		found = append(found, got)
	}

	slices.SortFunc(found, func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})

	return found
}

// normal brings numbers into one form.
func normal(t *testing.T, value map[string]any) map[string]any {
	t.Helper()

	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}

	var out map[string]any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}

	return out
}
