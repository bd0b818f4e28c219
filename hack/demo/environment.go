package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"deadletter.dev/deadletter/internal/pgtest"
)

// The programs that run beside the servers.
const (
	operatorName = "operator"
	hostpodsName = "hostpods"
)

// keptNetwork is where the pods of `demo up` are, so that their address is the same every time.
const keptNetwork = "127.77.0"

// randomNetwork is for a demo that must not meet another one.
func randomNetwork() string {
	return fmt.Sprintf("127.%d.%d", 80+rand.IntN(100), rand.IntN(256))
}

// environment is everything the story needs: a Kubernetes API, a Postgres, the operator, and what runs its pods.
type environment struct {
	place *place
	// network is the beginning of the addresses of the pods and the operator.
	network string
	out     *printer
	// path is where kubectl is found.
	path     string
	postgres *pgtest.Server
}

// start brings everything up. What it has started is recorded in the place, which stops it.
func (e *environment) start(ctx context.Context) error {
	if err := os.MkdirAll(e.place.dir, 0o755); err != nil {
		return err
	}

	e.out.heading("Getting ready: a Kubernetes API and a Postgres, for this demo only")

	for _, step := range []struct {
		name   string
		action func(context.Context) error
	}{
		{"build deadletter", e.build},
		{"start etcd, kube-apiserver and kube-controller-manager", e.startControlPlane},
		{"start Postgres", e.startPostgres},
		{"install the custom resources and the operator's roles", e.install},
		{"start the operator, with the rights of its ServiceAccount", e.startOperator},
		{"start hostpods, which runs pods as processes of this machine", e.startHostpods},
	} {
		if err := e.out.step(step.name, func() error { return step.action(ctx) }); err != nil {
			return err
		}
	}

	return nil
}

func (e *environment) build(ctx context.Context) error {
	bin := e.place.bin("") + string(filepath.Separator)

	return e.goTool(ctx, "build", "-o", bin, "./cmd/deadletter", "./hack/hostpods")
}

// goTool runs the go command in the work tree, and shows what it has to say only if it fails.
func (e *environment) goTool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = e.place.root

	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}

	return nil
}

// controlPlaneTool runs hack/controlplane, whose first run builds Kubernetes; its progress is shown then.
func (e *environment) controlPlaneTool(ctx context.Context, args ...string) (string, error) {
	tool := append([]string{"run", "-C", filepath.Join(e.place.root, "hack", "controlplane"), "."}, args...)
	cmd := exec.CommandContext(ctx, "go", tool...)
	progress := &lateWriter{out: os.Stderr, after: time.Now().Add(lateAfter)}
	cmd.Stderr = progress

	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, progress.held.Bytes())
	}

	return strings.TrimSpace(string(out)), nil
}

// lateAfter is how long the control plane may take before its progress is worth showing.
const lateAfter = 12 * time.Second

// lateWriter holds back what is written until it has taken long enough to be of interest.
type lateWriter struct {
	out   *os.File
	after time.Time
	held  bytes.Buffer
}

// Write passes everything on once the time has come.
func (w *lateWriter) Write(content []byte) (int, error) {
	w.held.Write(content)

	if time.Now().Before(w.after) {
		return len(content), nil
	}

	if _, err := w.held.WriteTo(w.out); err != nil {
		return 0, err
	}

	return len(content), nil
}

func (e *environment) startControlPlane(ctx context.Context) error {
	if err := e.place.change(func(s *state) { s.ControlPlane = true }); err != nil {
		return err
	}

	if _, err := e.controlPlaneTool(ctx, "up", "--dir", e.place.controlPlane()); err != nil {
		return err
	}

	// kubectl is there unless a suitable one is installed.
	assets, err := e.controlPlaneTool(ctx, "assets")
	if err != nil {
		return err
	}

	e.path = assets + string(filepath.ListSeparator) + os.Getenv("PATH")

	return e.place.change(func(s *state) { s.Path = assets })
}

func (e *environment) startPostgres(ctx context.Context) error {
	// Its user may not be able to enter the work tree.
	dir, err := os.MkdirTemp("", "deadletter-demo-")
	if err != nil {
		return err
	}

	if err := e.place.change(func(s *state) { s.Postgres = dir }); err != nil {
		return err
	}

	e.postgres, err = pgtest.Start(ctx, pgtest.Options{Dir: dir, Detach: true})
	if err != nil {
		return err
	}

	return os.WriteFile(e.place.file("database-uri"), []byte(e.postgres.URL("postgres")), 0o600)
}

// install applies what the installation consists of, except for the operator's Deployment, whose place a process takes.
func (e *environment) install(ctx context.Context) error {
	if err := e.writeKubeconfig(ctx); err != nil {
		return err
	}

	for _, args := range [][]string{
		{"apply", "-f", "config/manager/namespace.yaml", "-f", "hack/demo/manifests/namespace.yaml"},
		{"apply", "-k", "config/crd"},
		{"apply", "-k", "config/rbac"},
		{"wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"},
	} {
		if _, err := e.kubectl(ctx, args...); err != nil {
			return err
		}
	}

	return nil
}

// kubectl runs quietly and returns the output.
func (e *environment) kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Env = e.variables()
	cmd.Dir = e.place.root

	if found, err := lookPath("kubectl", e.path); err == nil {
		cmd.Path, cmd.Err = found, nil
	}

	var complaints bytes.Buffer

	cmd.Stderr = &complaints

	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, complaints.Bytes())
	}

	return string(out), nil
}

// lookPath finds a program in a list of folders that is not the process's own.
func lookPath(name, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}

	return "", exec.ErrNotFound
}

// variables are the environment of the story's commands.
func (e *environment) variables() []string {
	return append(os.Environ(), "PATH="+e.path, "KUBECONFIG="+e.place.kubeconfig())
}

// writeKubeconfig makes the story's namespace the default one, so that its commands are short.
func (e *environment) writeKubeconfig(ctx context.Context) error {
	content, err := os.ReadFile(filepath.Join(e.place.controlPlane(), "kubeconfig"))
	if err != nil {
		return err
	}

	if err := os.WriteFile(e.place.kubeconfig(), content, 0o600); err != nil {
		return err
	}

	_, err = e.kubectl(ctx, "config", "set-context", "--current", "--namespace=shop")

	return err
}

// startOperator runs the operator as a process with the rights of its ServiceAccount, and nothing more.
func (e *environment) startOperator(ctx context.Context) error {
	if err := e.writeOperatorKubeconfig(ctx); err != nil {
		return err
	}

	probes := e.network + ".254:8081"

	err := e.spawn(operatorName, []string{
		"KUBECONFIG=" + e.place.operatorKubeconfig(), "DEADLETTER_IMAGE=deadletter:dev",
	}, e.place.bin("deadletter"), "operator", "--probe-address", probes, "--metrics-address", e.network+".254:8080")
	if err != nil {
		return err
	}

	return e.awaitReady(ctx, "http://"+probes+"/readyz")
}

// awaitReady waits until a server says that it is ready.
func (e *environment) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()

	return until(ctx, func() (bool, error) {
		current, err := e.place.load()
		if err != nil {
			return false, err
		}

		for _, process := range current.Processes {
			if !process.alive() {
				return false, fmt.Errorf("the %s has ended\n%s", process.Name, e.place.tails())
			}
		}

		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return false, err
		}

		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}

		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK, nil
	})
}

// until asks again and again until the answer is yes.
func until(ctx context.Context, ask func() (bool, error)) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()

	for {
		if done, err := ask(); done || err != nil {
			return err
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("it took too long: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}

func (e *environment) writeOperatorKubeconfig(ctx context.Context) error {
	token, err := e.kubectl(ctx, "create", "token", "deadletter-operator", "-n", "deadletter-system", "--duration=720h")
	if err != nil {
		return err
	}

	raw, err := e.kubectl(ctx, "config", "view", "--raw", "--minify", "--output=json")
	if err != nil {
		return err
	}

	var config map[string]any
	if err := json.Unmarshal([]byte(raw), &config); err != nil {
		return err
	}

	users, ok := config["users"].([]any)
	if !ok || len(users) != 1 {
		return errors.New("the kubeconfig has no single user")
	}

	user, ok := users[0].(map[string]any)
	if !ok {
		return errors.New("the kubeconfig's user is no object")
	}

	user["user"] = map[string]any{"token": strings.TrimSpace(token)}

	content, err := json.Marshal(config)
	if err != nil {
		return err
	}

	return os.WriteFile(e.place.operatorKubeconfig(), content, 0o600)
}

func (e *environment) startHostpods(context.Context) error {
	return e.spawn(hostpodsName, nil, e.place.bin("hostpods"), "--kubeconfig", e.place.kubeconfig(),
		"--image", "deadletter="+e.place.bin("deadletter"), "--network", e.network+".0/24", "--dir", e.place.file("pods"))
}

func (e *environment) spawn(name string, env []string, program string, args ...string) error {
	started, err := spawn(name, e.place.log(name), env, program, args...)
	if err != nil {
		return err
	}

	return e.place.change(func(s *state) { s.Processes = append(s.Processes, started) })
}
