package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lastStage is the instructions of the Dockerfile's last stage, continued lines joined.
func lastStage(t *testing.T) []string {
	t.Helper()

	content, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}

	joined := strings.ReplaceAll(string(content), "\\\n", " ")

	lines := strings.Split(joined, "\n")
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "FROM ") {
			return lines[i:]
		}
	}

	t.Fatal("the Dockerfile has no FROM")

	return nil
}

// argument is what follows the one instruction of that name.
func argument(t *testing.T, stage []string, instruction string) string {
	t.Helper()

	var found []string

	for _, line := range stage {
		if rest, ok := strings.CutPrefix(line, instruction+" "); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}

	if len(found) != 1 {
		t.Fatalf("the last stage has %d times %s, want once", len(found), instruction)
	}

	return found[0]
}

func TestDockerfileSaysTheSame(t *testing.T) {
	t.Parallel()

	stage := lastStage(t)
	img := loadDocker(t, write(t, ""))

	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	if got := argument(t, stage, "FROM"); got != "scratch" {
		t.Errorf("FROM %s, want scratch", got)
	}

	if got, want := file.Config.User, argument(t, stage, "USER"); got != want {
		t.Errorf("user %q, Dockerfile %q", got, want)
	}

	var entrypoint []string
	if err := json.Unmarshal([]byte(argument(t, stage, "ENTRYPOINT")), &entrypoint); err != nil {
		t.Fatal(err)
	}

	if !slices.Equal(file.Config.Entrypoint, entrypoint) {
		t.Errorf("entrypoint %q, Dockerfile %q", file.Config.Entrypoint, entrypoint)
	}

	labels := map[string]string{}
	for _, pair := range regexp.MustCompile(`([\w.]+)="([^"]*)"`).FindAllStringSubmatch(argument(t, stage, "LABEL"), -1) {
		labels[pair[1]] = strings.ReplaceAll(pair[2], "$VERSION", version)
	}

	if !maps.Equal(file.Config.Labels, labels) {
		t.Errorf("labels %v, Dockerfile %v", file.Config.Labels, labels)
	}
}
