package cel

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type schema = apiextensionsv1.JSONSchemaProps

// Steps of a path that stand for every element of a list, and for every value of a map.
const (
	eachItem  = "[]"
	eachValue = "{}"
)

// node is a place in a schema.
type node struct {
	path   []string
	schema schema
}

func (n node) String() string {
	return strings.Join(n.path, ".")
}

func loadDefinition(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()

	name := "deadletter.dev_" + strings.ToLower(kind) + "s.yaml"

	content, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", name))
	if err != nil {
		t.Fatal(err)
	}

	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, definition); err != nil {
		t.Fatal(err)
	}

	return definition
}

// inputNodes are the root of a kind's schema and every place in its spec: what a user can get wrong.
func inputNodes(t *testing.T, kind string) []node {
	t.Helper()

	root := loadDefinition(t, kind).Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := root.Properties["spec"]

	top := *root
	top.Properties = nil

	return append([]node{{schema: top}}, descend(node{path: []string{"spec"}, schema: spec})...)
}

func descend(from node) []node {
	nodes := []node{from}

	below := func(step string, s schema) {
		nodes = append(nodes, descend(node{path: append(slices.Clone(from.path), step), schema: s})...)
	}

	for _, name := range slices.Sorted(maps.Keys(from.schema.Properties)) {
		below(name, from.schema.Properties[name])
	}

	if from.schema.Items != nil && from.schema.Items.Schema != nil {
		below(eachItem, *from.schema.Items.Schema)
	}

	if from.schema.AdditionalProperties != nil && from.schema.AdditionalProperties.Schema != nil {
		below(eachValue, *from.schema.AdditionalProperties.Schema)
	}

	return nodes
}

// reaches tells whether the value has something at the path.
func reaches(value any, path []string) bool {
	if len(path) == 0 {
		return value != nil
	}

	switch in := value.(type) {
	case []any:
		return path[0] == eachItem &&
			slices.ContainsFunc(in, func(item any) bool { return reaches(item, path[1:]) })
	case map[string]any:
		if path[0] != eachValue {
			return reaches(in[path[0]], path[1:])
		}

		return slices.ContainsFunc(slices.Collect(maps.Values(in)), func(v any) bool { return reaches(v, path[1:]) })
	default:
		return false
	}
}

// find returns the value at the path, of lists and maps the first one.
func find(value any, path []string) any {
	if len(path) == 0 {
		return value
	}

	switch in := value.(type) {
	case []any:
		return find(in[0], path[1:])
	case map[string]any:
		return find(in[path[0]], path[1:])
	default:
		return nil
	}
}

// put sets the value at the path, which must exist; of lists it is the first item.
func put(value any, path []string, to any) {
	parent := find(value, path[:len(path)-1])

	switch in := parent.(type) {
	case []any:
		in[0] = to
	case map[string]any:
		in[path[len(path)-1]] = to
	}
}

// statusNodes are the places in a kind's status.
func statusNodes(t *testing.T, kind string) []node {
	t.Helper()

	root := loadDefinition(t, kind).Spec.Versions[0].Schema.OpenAPIV3Schema

	return descend(node{path: []string{"status"}, schema: root.Properties["status"]})
}
