package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"deadletter.dev/deadletter/internal/kubetest"
)

// root is the repository's.
var root = filepath.Join("..", "..")

// kinds have a manual each, named after them.
var kinds = []string{"broker", "queue", "replay"}

func TestMain(m *testing.M) {
	kubetest.Main(m)
}

func read(t *testing.T, elements ...string) string {
	t.Helper()

	content, err := os.ReadFile(filepath.Join(append([]string{root}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}

	return string(content)
}

func manual(t *testing.T, kind string) string {
	t.Helper()

	return read(t, "docs", kind+".md")
}

// pages are all documents for people, by their paths from the root.
func pages(t *testing.T) []string {
	t.Helper()

	found, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}

	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			found = append(found, path)
		}

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	for i, path := range found {
		if found[i], err = filepath.Rel(root, path); err != nil {
			t.Fatal(err)
		}
	}

	return found
}

// section is the part of a page under a heading, up to the next heading of its level.
func section(t *testing.T, page, heading string) string {
	t.Helper()

	_, after, found := strings.Cut(page, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no section %q", heading)
	}

	inside, _, _ := strings.Cut(after, "\n## ")

	return inside
}

// rows are the lines of tables whose first cell is a name in backticks, by that name.
func rows(page string) map[string][]string {
	found := make(map[string][]string)

	for line := range strings.Lines(page) {
		cell, isRow := strings.CutPrefix(line, "| `")
		if !isRow {
			continue
		}

		cell, _, _ = strings.Cut(cell, " | ")
		for name := range strings.SplitSeq(cell, ",") {
			name = strings.Trim(name, " `")
			found[name] = append(found[name], line)
		}
	}

	return found
}

func version(t *testing.T, kind string) apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()

	var definition apiextensionsv1.CustomResourceDefinition

	content := read(t, "config", "crd", "bases", "deadletter.dev_"+kind+"s.yaml")
	if err := yaml.UnmarshalStrict([]byte(content), &definition); err != nil {
		t.Fatal(err)
	}

	return definition.Spec.Versions[0]
}
