package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parse returns the syntax of a package's files, without its tests.
func parse(t *testing.T, folder ...string) []*ast.File {
	t.Helper()

	paths, err := filepath.Glob(filepath.Join(append(append([]string{root}, folder...), "*.go")...))
	if err != nil {
		t.Fatal(err)
	}

	var files []*ast.File

	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}

		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}

		files = append(files, file)
	}

	if len(files) == 0 {
		t.Fatalf("no Go files in %s", filepath.Join(folder...))
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

// mentioned are the constants of the API package with a prefix that are found under a node.
func mentioned(under ast.Node, prefix string) []string {
	var names []string

	ast.Inspect(under, func(node ast.Node) bool {
		if selector, isSelector := node.(*ast.SelectorExpr); isSelector {
			if from, isName := selector.X.(*ast.Ident); isName && from.Name == "v1alpha1" &&
				strings.HasPrefix(selector.Sel.Name, prefix) {
				names = append(names, selector.Sel.Name)
			}
		}

		return true
	})

	return names
}

// setters are the methods that write a condition.
var setters = []string{"True", "False", "Unknown", "Set", "Introduce"}

// written are the constants for types of conditions that a file hands to a setter.
func written(file *ast.File) []string {
	var names []string

	ast.Inspect(file, func(node ast.Node) bool {
		call, isCall := node.(*ast.CallExpr)
		if !isCall {
			return true
		}

		if method, isMethod := call.Fun.(*ast.SelectorExpr); isMethod && slices.Contains(setters, method.Sel.Name) {
			names = append(names, mentioned(call, "Condition")...)
		}

		return true
	})

	return names
}

// given are the reasons and the types of conditions that a kind's reconciler can write.
func given(t *testing.T, kind string) (reasons, conditions map[string]bool) {
	t.Helper()

	values := texts(t, parse(t, "api", "v1alpha1"))
	reasons, conditions = make(map[string]bool), make(map[string]bool)

	for _, folder := range []string{kind, "status"} {
		for _, file := range parse(t, "controllers", folder) {
			for _, decl := range file.Decls {
				if folder == "status" && isVariable(decl) {
					continue // A table that weighs reasons, and gives none.
				}

				for _, name := range mentioned(decl, "Reason") {
					reasons[values[name]] = true
				}
			}

			for _, name := range written(file) {
				conditions[values[name]] = true
			}
		}
	}

	return reasons, conditions
}

func isVariable(decl ast.Decl) bool {
	general, isGeneral := decl.(*ast.GenDecl)

	return isGeneral && general.Tok == token.VAR
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
			reasons, conditions := given(t, kind)
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
