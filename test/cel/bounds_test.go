package cel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// completeCases are the cases whose specs, taken together, set every field of a kind.
var completeCases = map[string][]string{
	"Broker": {"what is set is left as it is", "what is set of a managed database is left as it is"},
	"Queue":  {"what is set is left as it is"},
	"Replay": {"what is set is left as it is", "what is set of a gate with a digest is left as it is"},
}

// probe is a value on one side of a bound.
type probe struct {
	name   string
	value  any
	within bool
}

// TestBounds tries out both sides of every bound that the schema sets for a field.
func TestBounds(t *testing.T) {
	t.Parallel()

	api, namespace := connect(t)

	for _, kind := range kinds {
		specs := completeSpecs(t, kind)

		for _, place := range inputNodes(t, kind) {
			if isForeign(place) || len(place.path) < 2 || place.path[len(place.path)-1] == eachValue {
				continue
			}

			at := slices.IndexFunc(specs, func(spec map[string]any) bool {
				return reaches(map[string]any{"spec": spec}, place.path)
			})
			if at < 0 {
				t.Errorf("no complete case of %s sets %s", kind, place)
				continue
			}

			for _, p := range probes(place, specs[at]) {
				t.Run(fmt.Sprintf("%s/%s/%s", kind, place, p.name), func(t *testing.T) {
					t.Parallel()
					p.try(t, api, newObject(kind, namespace, "probe", specs[at]).Object, place)
				})
			}
		}
	}
}

func completeSpecs(t *testing.T, kind string) []map[string]any {
	t.Helper()

	var specs []map[string]any

	for _, c := range loadCases(t, kind) {
		if slices.Contains(completeCases[kind], c.Name) {
			specs = append(specs, c.Spec)
		}
	}

	if len(specs) != len(completeCases[kind]) {
		t.Fatalf("want the complete cases of %s, found %d", kind, len(specs))
	}

	return specs
}

// try sends the object with the value put in. A refusal counts when it names the place: a rule that looks at several
// fields may have its own reasons.
func (p probe) try(t *testing.T, api client.Client, object map[string]any, place node) {
	t.Helper()

	object = runtime.DeepCopyJSON(object)
	put(object, place.path, p.value)

	err := api.Create(t.Context(), asObject(object), client.DryRunAll)

	field := strings.ReplaceAll(place.String(), "."+eachItem, "[0]")
	refused := slices.ContainsFunc(refusals(t, err, nil), func(r refusal) bool { return r.Field == field })

	if refused == p.within {
		t.Errorf("%s = %v: want it accepted: %t; got %v", field, p.value, p.within, err)
	}
}

func probes(place node, spec map[string]any) []probe {
	s := place.schema

	switch {
	case s.XIntOrString:
		return nil // Quantities have a syntax of their own; their bounds are rules.
	case len(s.Enum) > 0:
		return enumProbes(s)
	case s.Type == "string" && s.Format == "":
		return stringProbes(s)
	case s.Type == "integer":
		return []probe{
			{"least", int64(*s.Minimum), true},
			{"below least", int64(*s.Minimum) - 1, false},
			{"most", int64(*s.Maximum), true},
			{"above most", int64(*s.Maximum) + 1, false},
		}
	case s.Type == "array":
		first := find(map[string]any{"spec": spec}, append(slices.Clone(place.path), eachItem))

		return []probe{
			{"empty", []any{}, false},
			{"most", items(first, s, *s.MaxItems), true},
			{"above most", items(first, s, *s.MaxItems+1), false},
		}
	case s.Type == "object":
		return objectProbes(s)
	default:
		return nil
	}
}

func enumProbes(s schema) []probe {
	all := []probe{{"unknown", "Unknown", false}, {"empty", "", false}}

	for _, value := range s.Enum {
		name := strings.Trim(string(value.Raw), `"`)
		all = append(all, probe{name, name, true}, probe{strings.ToLower(name), strings.ToLower(name), false})
	}

	return all
}

func stringProbes(s schema) []probe {
	all := []probe{
		{"shortest", strings.Repeat("a", int(*s.MinLength)), true},
		{"too short", strings.Repeat("a", int(*s.MinLength)-1), false},
		{"longest", strings.Repeat("a", int(*s.MaxLength)), true},
		{"too long", strings.Repeat("a", int(*s.MaxLength)+1), false},
	}

	if s.Pattern != "" {
		all = append(all, probe{"blank", "a b", false}, probe{"line break", "a\n", false})
	}

	return all
}

func objectProbes(s schema) []probe {
	var all []probe

	if s.MinProperties != nil && !hasDefaults(s) {
		all = append(all, probe{"empty", map[string]any{}, false})
	}

	if s.MaxProperties != nil {
		all = append(all,
			probe{"most", properties(*s.MaxProperties), true},
			probe{"above most", properties(*s.MaxProperties + 1), false})
	}

	return all
}

func hasDefaults(s schema) bool {
	for _, property := range s.Properties {
		if property.Default != nil {
			return true
		}
	}

	return false
}

func properties(count int64) map[string]any {
	all := map[string]any{}
	for i := range count {
		all[fmt.Sprintf("k%d", i)] = "v"
	}

	return all
}

// items returns a list of different items that are like the first one.
func items(first any, list schema, count int64) []any {
	all := make([]any, 0, count)

	for i := range count {
		text := fmt.Sprintf("%x", i+1)

		switch like := first.(type) {
		case string:
			all = append(all, text)
		case map[string]any:
			item := runtime.DeepCopyJSON(like)

			key := "key"
			if len(list.XListMapKeys) > 0 {
				key = list.XListMapKeys[0]
			}

			item[key] = text
			all = append(all, item)
		default:
			all = append(all, i+1)
		}
	}

	return all
}

// isForeign tells whether the place is inside a type of Kubernetes itself, which has bounds of its own or none.
func isForeign(place node) bool {
	for _, foreign := range []string{
		"spec.allowedNamespaces.selector",
		"spec.api.podTemplate.imagePullSecrets.[]",
		"spec.api.podTemplate.tolerations.[]",
		"spec.api.podTemplate.topologySpreadConstraints.[]",
		"spec.api.resources",
		"spec.database.managed.resources",
	} {
		if place.String() == foreign || strings.HasPrefix(place.String(), foreign+".") {
			return true
		}
	}

	return false
}

func TestEverythingIsBounded(t *testing.T) {
	t.Parallel()

	for _, kind := range kinds {
		for _, place := range append(inputNodes(t, kind), statusNodes(t, kind)...) {
			if isForeign(place) || strings.HasPrefix(place.String(), "status.conditions.[]") || len(place.path) == 0 {
				continue
			}

			if !isBounded(place.schema) && place.path[len(place.path)-1] != eachValue {
				t.Errorf("%s: %s has no bound", kind, place)
			}
		}
	}
}

// isBounded tells whether a value has a largest size. The values of a map are the business of its rules.
func isBounded(s apiextensionsv1.JSONSchemaProps) bool {
	switch {
	case s.XIntOrString || s.Type == "boolean" || len(s.Enum) > 0 || s.Format == "date-time":
		return true
	case s.Type == "string":
		return s.MaxLength != nil
	case s.Type == "integer":
		return s.Minimum != nil && s.Maximum != nil
	case s.Type == "array":
		return s.MaxItems != nil && s.XListType != nil
	case s.Type == "object" && s.AdditionalProperties != nil:
		return s.MaxProperties != nil
	case s.Type == "object":
		return s.XPreserveUnknownFields == nil
	default:
		return false
	}
}
