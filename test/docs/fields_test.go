package docs

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// whole are fields that a manual speaks of as one: their insides are Kubernetes' own types, or repeat the spec.
var whole = map[string]bool{
	"database.managed.resources":                true,
	"api.resources":                             true,
	"api.podTemplate.tolerations":               true,
	"api.podTemplate.topologySpreadConstraints": true,
	"api.podTemplate.imagePullSecrets":          true,
	"allowedNamespaces.selector":                true,
	"conditions":                                true,
	"effective":                                 true,
}

// field is a field of a spec or a status.
type field struct {
	path   string
	schema apiextensionsv1.JSONSchemaProps
}

// fields are the leaves under a schema; the elements of a list of objects are written as `list[].field`.
func fields(path string, schema apiextensionsv1.JSONSchemaProps) []field {
	if schema.Items != nil && schema.Items.Schema != nil && len(schema.Items.Schema.Properties) > 0 && !whole[path] {
		path, schema = path+"[]", *schema.Items.Schema
	}

	if len(schema.Properties) == 0 || whole[path] {
		return []field{{path, schema}}
	}

	var found []field

	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		below := name
		if path != "" {
			below = path + "." + name
		}

		found = append(found, fields(below, schema.Properties[name])...)
	}

	return found
}

func TestManualsDescribeEveryField(t *testing.T) {
	t.Parallel()

	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			top := version(t, kind).Schema.OpenAPIV3Schema

			writing := rows(section(t, manual(t, kind), "Writing a "+strings.ToUpper(kind[:1])+kind[1:]))
			checkFields(t, writing, fields("", top.Properties["spec"]), checkRow)

			status := rows(section(t, manual(t, kind), "Status"))
			checkFields(t, status, fields("", top.Properties["status"]), func(*testing.T, string, field) {})
		})
	}
}

// checkFields holds the rows of a table to the fields there are. A row may be about a field that has fields, too.
func checkFields(t *testing.T, table map[string][]string, all []field, check func(*testing.T, string, field)) {
	t.Helper()

	for _, f := range all {
		switch lines := table[f.path]; len(lines) {
		case 0:
			t.Errorf("no row is about %s", f.path)
		case 1:
			check(t, lines[0], f)
		default:
			t.Errorf("%d rows are about %s", len(lines), f.path)
		}
	}

	for name := range table {
		if !slices.ContainsFunc(all, func(f field) bool { return f.path == name || strings.HasPrefix(f.path, name+".") }) {
			t.Errorf("a row is about %s, which does not exist", name)
		}
	}
}

var (
	unset     = regexp.MustCompile(`(?i)unset means (\d+|'[A-Za-z]+')`)
	immutable = regexp.MustCompile(`(?m)\bImmutable\b`)
	number    = regexp.MustCompile(`\d+`)
)

// checkRow holds a row to the default, the bounds, the choices and the mutability that the schema has.
func checkRow(t *testing.T, row string, f field) {
	t.Helper()

	numbers := number.FindAllString(row, -1)

	for what, bound := range map[string]*float64{"minimum": f.schema.Minimum, "maximum": f.schema.Maximum} {
		if bound != nil && !slices.Contains(numbers, strconv.FormatFloat(*bound, 'f', -1, 64)) {
			t.Errorf("%s: the row does not say the %s %.0f", f.path, what, *bound)
		}
	}

	for _, bound := range []*int64{f.schema.MaxItems, f.schema.MaxProperties} {
		if bound != nil && !slices.Contains(numbers, strconv.FormatInt(*bound, 10)) {
			t.Errorf("%s: the row does not say that there are at most %d", f.path, *bound)
		}
	}

	for _, choice := range f.schema.Enum {
		requireWord(t, row, f.path, choice.Raw)
	}

	if f.schema.Default != nil {
		requireWord(t, row, f.path, f.schema.Default.Raw)
	}

	if match := unset.FindStringSubmatch(f.schema.Description); match != nil {
		if value := strings.Trim(match[1], "'"); !strings.Contains(row, value) {
			t.Errorf("%s: the row does not say that unset means %s", f.path, value)
		}
	}

	if immutable.MatchString(f.schema.Description) && !strings.Contains(row, "immutable") {
		t.Errorf("%s: the row does not say that it is immutable", f.path)
	}
}

// requireWord asks for the plain text of a JSON value.
func requireWord(t *testing.T, row, path string, raw []byte) {
	t.Helper()

	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}

	word, isText := value.(string)
	if !isText {
		word = string(raw)
	}

	if !strings.Contains(row, word) {
		t.Errorf("%s: the row does not say %s", path, word)
	}
}

func TestManualsDescribeEveryColumn(t *testing.T) {
	t.Parallel()

	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			columns := section(t, manual(t, kind), "Columns")
			for _, column := range version(t, kind).AdditionalPrinterColumns {
				if !strings.Contains(columns, strings.ToUpper(column.Name)) {
					t.Errorf("the section does not speak of the column %s", strings.ToUpper(column.Name))
				}
			}
		})
	}
}
