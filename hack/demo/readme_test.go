package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// manifest is enough of an object to tell it from others, and to compare what it asks for.
type manifest struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

func (m manifest) name() string { return m.Kind + " " + m.Metadata.Name }

// A reader applies the README's example beside what `make up` has made and what it suggests to apply: of one name, one
// would change the other, or be refused.
func TestReadmeNamesNothingOfTheDemo(t *testing.T) {
	t.Parallel()

	taken := map[string]string{}

	for _, pattern := range []string{"manifests/*.yaml", "../../config/samples/*.yaml", "../../config/broker/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}

		for _, file := range files {
			for _, object := range manifests(t, read(t, file)) {
				taken[object.name()] = file
			}
		}
	}

	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(read(t, "../../README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("the README has no example")
	}

	for _, block := range blocks {
		for _, object := range manifests(t, block[1]) {
			if file, ok := taken[object.name()]; ok {
				t.Errorf("%s is in %s too", object.name(), file)
			}
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()

	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	return content
}

func manifests(t *testing.T, content []byte) []manifest {
	t.Helper()

	var found []manifest

	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var object manifest
		if err := yaml.Unmarshal(document, &object); err != nil {
			t.Fatal(err)
		}

		if object.Kind != "" && object.Kind != "Kustomization" {
			found = append(found, object)
		}
	}

	return found
}
