package kubetest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { Main(m) }

func TestStartServesTheProductsKinds(t *testing.T) {
	t.Parallel()

	config := Start(t)

	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	resources, err := client.ServerResourcesForGroupVersion("deadletter.dev/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}

	got := map[string]bool{}
	for _, resource := range resources.APIResources {
		got[resource.Name] = true
	}

	for _, name := range []string{"brokers", "queues", "queues/status", "replays"} {
		if !got[name] {
			t.Errorf("%s is not served", name)
		}
	}

	version, err := client.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}

	if version.Major != "1" || version.Minor == "0" {
		t.Errorf("the server calls itself %s", version)
	}
}

func TestStartSharesOneControlPlaneAndCopiesTheConfig(t *testing.T) {
	t.Parallel()

	first := Start(t)
	host := first.Host
	first.Host = "changed"

	if got := Start(t).Host; got != host {
		t.Errorf("the second call returned %q, want %q", got, host)
	}
}

//nolint:tparallel // The inner test must end before the outer one looks.
func TestNamespaceIsFreshAndCleaned(t *testing.T) {
	t.Parallel()

	config := Start(t)
	names := map[string]bool{}

	t.Run("user", func(t *testing.T) {
		for range 3 {
			names[Namespace(t, config)] = true
		}
	})

	if len(names) != 3 {
		t.Errorf("three calls returned the names %v", names)
	}

	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	for name := range names {
		found, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}

		if found.DeletionTimestamp == nil {
			t.Errorf("namespace %s outlives its test", name)
		}
	}
}

func TestRender(t *testing.T) {
	t.Parallel()

	var kinds []string

	for _, object := range Render(t, "config/crd") {
		kinds = append(kinds, object.GetKind()+" "+object.GetName())
	}

	want := []string{
		"CustomResourceDefinition brokers.deadletter.dev",
		"CustomResourceDefinition queues.deadletter.dev",
		"CustomResourceDefinition replays.deadletter.dev",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("rendered objects (-want +got):\n%s", diff)
	}
}

const helperVariable = "KUBETEST_HELPER"

// TestHelperProcess is the program that TestWatchdogCleansUpAfterKill kills; on its own it does nothing.
func TestHelperProcess(t *testing.T) {
	t.Parallel()

	if os.Getenv(helperVariable) == "" {
		t.Skip("runs only as a child of another test")
	}

	Start(t)

	fmt.Println("started", shared.environment.dir)

	<-t.Context().Done()
}

func TestWatchdogCleansUpAfterKill(t *testing.T) {
	t.Parallel()

	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("needs /proc to look for processes")
	}

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperProcess$", "-test.v")
	cmd.Env = append(os.Environ(), helperVariable+"=1")

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	var dir string

	for lines := bufio.NewScanner(out); dir == "" && lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "started "); found {
			dir = rest
		}
	}

	if got := len(naming(t, dir)); dir == "" || got != 2 {
		t.Fatalf("%d processes name the folder %q, want etcd and kube-apiserver", got, dir)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	_ = cmd.Wait()

	gone := func(context.Context) (bool, error) {
		_, err := os.Stat(dir)

		return os.IsNotExist(err) && len(naming(t, dir)) == 0, nil
	}

	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, gone); err != nil {
		t.Errorf("processes %v or folder %s are still there", naming(t, dir), dir)
	}
}

// naming lists the processes whose arguments name the folder.
func naming(t *testing.T, dir string) []string {
	t.Helper()

	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}

	var found []string

	for _, file := range files {
		// Processes end while they are listed.
		if content, err := os.ReadFile(file); err == nil && strings.Contains(string(content), dir) {
			found = append(found, filepath.Dir(file))
		}
	}

	return found
}
