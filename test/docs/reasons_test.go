package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parse returns the syntax of a package's files, without its tests.
func parse(t *testing.T, folder ...string) []*ast.File {
	t.Helper()

	directory := filepath.Join(append([]string{root}, folder...)...)
	//nolint:staticcheck // no build constraints there, and no dependency for them here
	parsed, err := parser.ParseDir(token.NewFileSet(), directory, func(info fs.FileInfo) bool {
		return !strings.HasSuffix(info.Name(), "_test.go")
	}, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}

	var files []*ast.File

	for _, pkg := range parsed {
		files = slices.AppendSeq(files, maps.Values(pkg.Files))
	}

	if len(files) == 0 {
		t.Fatalf("no Go files in %s", directory)
	}

	return files
}

// texts are a package's constants whose values are strings.
func texts(t *testing.T, files []*ast.File) map[string]string {
	t.Helper()

	values := make(map[string]string)

	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, isSpec := node.(*ast.ValueSpec)
			if !isSpec {
				return true
			}

			for i, value := range spec.Values {
				literal, isLiteral := value.(*ast.BasicLit)
				if !isLiteral || literal.Kind != token.STRING || i >= len(spec.Names) {
					continue
				}

				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}

				values[spec.Names[i].Name] = text
			}

			return true
		})
	}

	return values
}

// mentioned are the constants of the API package with a prefix that a package refers to.
func mentioned(files []*ast.File, prefix string) map[string]bool {
	names := make(map[string]bool)

	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, isSelector := node.(*ast.SelectorExpr); isSelector {
				if from, isName := selector.X.(*ast.Ident); isName && from.Name == "v1alpha1" &&
					strings.HasPrefix(selector.Sel.Name, prefix) {
					names[selector.Sel.Name] = true
				}
			}

			return true
		})
	}

	return names
}

// given are the reasons, or the types of conditions, that a kind's reconciler can write.
func given(t *testing.T, kind, prefix string) map[string]bool {
	t.Helper()

	values := texts(t, parse(t, "api", "v1alpha1"))
	found := make(map[string]bool)

	for _, folder := range []string{kind, "status"} {
		for name := range mentioned(parse(t, "controllers", folder), prefix) {
			found[values[name]] = true
		}
	}

	return found
}

// told are the reasons of Events that are no condition's: constants of the reconciler's own.
func told(t *testing.T, kind string) map[string]bool {
	t.Helper()

	found := make(map[string]bool)

	for name, value := range texts(t, parse(t, "controllers", kind)) {
		if strings.HasPrefix(name, "event") || strings.HasPrefix(name, "reason") {
			found[value] = true
		}
	}

	return found
}

func TestManualsExplainEveryReason(t *testing.T) {
	t.Parallel()

	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			page := manual(t, kind)
			conditions, reasons := given(t, kind, "Condition"), given(t, kind, "Reason")
			events := told(t, kind)

			rows, told := rows(section(t, page, "Conditions")), rows(section(t, page, "Events"))
			for name := range reasons {
				if rows[name] == nil && told[name] == nil {
					t.Errorf("the reason %s is not explained", name)
				}
			}

			for name := range conditions {
				if rows[name] == nil {
					t.Errorf("the condition %s is not explained", name)
				}
			}

			for name := range events {
				if told[name] == nil {
					t.Errorf("the Event %s is not explained", name)
				}
			}

			for name := range rows {
				if !reasons[name] && !conditions[name] {
					t.Errorf("%s is explained, and no reconciler of the kind gives it", name)
				}
			}

			for name := range told {
				if !reasons[name] && !events[name] {
					t.Errorf("the Event %s is explained, and no reconciler of the kind records it", name)
				}
			}
		})
	}
}
