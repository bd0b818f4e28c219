package assets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompatible(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		client, server string
		want           bool
	}{
		"same":               {"v1.37.2", "v1.37.2", true},
		"one older":          {"v1.36.0", "v1.37.2", true},
		"one newer":          {"v1.38.0-alpha.1", "v1.37.2", true},
		"two older":          {"v1.35.9", "v1.37.2", false},
		"two newer":          {"v1.39.0", "v1.37.2", false},
		"vendor's build":     {"v1.37.4-dispatcher", "v1.37.2", true},
		"other major":        {"v2.37.2", "v1.37.2", false},
		"no version":         {"", "v1.37.2", false},
		"unstamped build":    {"v0.0.0-master+$Format:%H$", "v1.37.2", false},
		"words for a number": {"vone.two.three", "v1.37.2", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := compatible(test.client, test.server); got != test.want {
				t.Errorf("compatible(%q, %q) = %v", test.client, test.server, got)
			}
		})
	}
}

func TestSourceIsPinned(t *testing.T) {
	t.Parallel()

	found, err := findSource()
	if err != nil {
		t.Fatal(err)
	}

	for name, version := range map[string]string{"kubernetes": found.kubernetes, "etcd": found.etcd} {
		if _, _, ok := majorMinor(version); !ok {
			t.Errorf("the pinned version of %s is %q", name, version)
		}
	}
}

func TestSourceSumFollowsTheDependencies(t *testing.T) {
	t.Parallel()

	const mod = "module m\n\nrequire go.etcd.io/etcd/server/v3 v3.7.3\nrequire k8s.io/kubernetes v1.37.2\n"

	sum := func(goMod, goSum string) string {
		dir := t.TempDir()
		for name, content := range map[string]string{"go.mod": goMod, "go.sum": goSum} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}

		found, err := readSource(dir)
		if err != nil {
			t.Fatal(err)
		}

		return found.sum
	}

	base := sum(mod, "a")
	if sum(mod, "a") != base {
		t.Error("equal modules have different sums")
	}

	if sum(mod, "b") == base || sum(mod+"// changed\n", "a") == base {
		t.Error("a changed dependency does not change the sum")
	}
}

func TestRequired(t *testing.T) {
	t.Parallel()

	mod := []byte(`module m

require (
	k8s.io/kubernetes v1.37.2
)

replace (
	k8s.io/api => k8s.io/api v0.37.2
)
`)

	if got, err := required(mod, "k8s.io/kubernetes"); err != nil || got != "v1.37.2" {
		t.Errorf("required = %q, %v", got, err)
	}

	if _, err := required(mod, "k8s.io/api"); err == nil {
		t.Error("a replacement was taken for a requirement")
	}
}

func TestLinkerFlagsStampTheVersion(t *testing.T) {
	t.Parallel()

	flags, err := linkerFlags("v1.37.2")
	if err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.37.2",
		"-X k8s.io/component-base/version.gitMajor=1",
		"-X k8s.io/component-base/version.gitMinor=37",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("%q is missing in %q", want, flags)
		}
	}
}

func TestFailingCommandIsExplained(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	lines := 0

	err := runGo(t.Context(), dir, func(string) { lines++ }, "build", "./absent")
	if err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("error %v does not say what failed", err)
	}

	if lines == 0 {
		t.Error("no output was reported while the command ran")
	}
}
