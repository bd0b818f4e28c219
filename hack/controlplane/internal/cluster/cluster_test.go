package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadletter.dev/deadletter/hack/controlplane/internal/assets"
	"deadletter.dev/deadletter/hack/controlplane/internal/progress"
)

const deployment = `{
  "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
  "spec": {
    "replicas": 2,
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
      "metadata": {"labels": {"app": "web"}},
      "spec": {"containers": [{"name": "web", "image": "example.invalid/web"}]}
    }
  }
}`

func TestUpDown(t *testing.T) {
	t.Parallel()

	out := progress.New(os.Stderr)

	binaries, err := assets.Ensure(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(t.TempDir(), "state")

	t.Cleanup(func() {
		if err := Down(dir, out); err != nil {
			t.Error(err)
		}
	})

	if _, err := Up(t.Context(), binaries, dir, out); err != nil {
		t.Fatal(err)
	}

	place := layout{dir: dir}
	first := load(t, place)

	if _, err := Up(t.Context(), binaries, dir, out); err != nil {
		t.Fatal(err)
	}

	for i, process := range load(t, place).Processes {
		if process != first.Processes[i] {
			t.Errorf("the second call replaced %+v by %+v", first.Processes[i], process)
		}
	}

	server := api{place: place, ports: first.Ports}
	rollOut(t, server)

	// After a crash of one component everything comes back with the same data and the same address.
	if err := first.Processes[0].stop(); err != nil {
		t.Fatal(err)
	}

	if _, err := Up(t.Context(), binaries, dir, out); err != nil {
		t.Fatal(err)
	}

	const path = "/apis/apps/v1/namespaces/default/deployments/web"
	if status, _ := server.call(t, http.MethodGet, path, ""); status != http.StatusOK {
		t.Errorf("the Deployment is gone after a restart: %d", status)
	}

	collectGarbage(t, server)

	last := load(t, place)
	if err := Down(dir, out); err != nil {
		t.Fatal(err)
	}

	for _, process := range last.Processes {
		if process.alive() {
			t.Errorf("%s survives", process.Name)
		}
	}

	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// rollOut expects the controllers to turn a Deployment into pods.
func rollOut(t *testing.T, server api) {
	t.Helper()

	const path = "/apis/apps/v1/namespaces/default/deployments"

	if status, body := server.call(t, http.MethodPost, path, deployment); status != http.StatusCreated {
		t.Fatalf("create a Deployment: %d %s", status, body)
	}

	server.eventually(t, "/apis/apps/v1/namespaces/default/replicasets", 1)
	server.eventually(t, "/api/v1/namespaces/default/pods", 2)
}

// collectGarbage expects the pods of a deleted Deployment to go.
func collectGarbage(t *testing.T, server api) {
	t.Helper()

	const path = "/apis/apps/v1/namespaces/default/deployments/web"
	if status, body := server.call(t, http.MethodDelete, path, ""); status != http.StatusOK {
		t.Fatalf("delete the Deployment: %d %s", status, body)
	}

	server.eventually(t, "/apis/apps/v1/namespaces/default/replicasets", 0)
	server.eventually(t, "/api/v1/namespaces/default/pods", 0)
}

func TestFailedUpLeavesNothing(t *testing.T) {
	t.Parallel()

	binaries := t.TempDir()
	// An etcd that fails at once, as it does on a taken port.
	script := "#!/bin/sh\necho the disk is on fire >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(binaries, "etcd"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(t.TempDir(), "state")

	_, err := Up(t.Context(), binaries, dir, progress.New(os.Stderr))
	if err == nil || !strings.Contains(err.Error(), "the disk is on fire") {
		t.Errorf("the error does not show the log: %v", err)
	}

	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestDownWithoutControlPlane(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "absent")
	if err := Down(dir, progress.New(os.Stderr)); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("Down created the folder")
	}
}

func TestDownKeepsForeignFiles(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	foreign := filepath.Join(dir, "mine")

	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	if err := Down(dir, progress.New(os.Stderr)); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

func load(t *testing.T, place layout) *state {
	t.Helper()

	found, err := place.load()
	if err != nil {
		t.Fatal(err)
	}

	return found
}

// api is the API server seen by its administrator.
type api struct {
	place layout
	ports ports
}

func (a api) call(t *testing.T, method, path, body string) (int, []byte) {
	t.Helper()

	client, err := newProbe(a.place, a.ports).client(administrator)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()

	request, err := http.NewRequestWithContext(t.Context(), method, loopbackURL(a.ports.APIServer)+path,
		bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}

	request.Header.Set("Content-Type", "application/json")

	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}

	return response.StatusCode, content
}

// eventually waits until a list has the number of items.
func (a api) eventually(t *testing.T, path string, want int) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()

	for {
		var list struct {
			Items []any `json:"items"`
		}

		status, body := a.call(t, http.MethodGet, path, "")
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}

		if status == http.StatusOK && len(list.Items) == want {
			return
		}

		select {
		case <-ctx.Done():
			t.Fatalf("%s has %d items, want %d", path, len(list.Items), want)
		case <-ticker.C:
		}
	}
}
