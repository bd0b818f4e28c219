package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// The programs that run beside the servers.
const (
	operatorName = "operator"
	hostpodsName = "hostpods"
)

// The second numbers of the loopback addresses in use. What is kept has the same ones every time, if they are free; a
// demo has some of its own.
const (
	keptNetworks  = 77
	shownNetworks = 78
)

// freeNetwork finds the beginning of addresses that no other demo of this machine uses.
func freeNetwork(second, third int) (string, error) {
	const networks = 256

	for i := range networks {
		network := fmt.Sprintf("127.%d.%d", second, (third+i)%networks)

		listener, err := net.Listen("tcp", probeAddress(network))
		if err == nil {
			return network, listener.Close()
		}
	}

	return "", fmt.Errorf("no network in 127.%d.0.0/16 is free", second)
}

// probeAddress is where the operator says how it is.
func probeAddress(network string) string { return network + ".254:8081" }

// environment is everything the story needs: a Kubernetes API, the operator, and what runs its pods.
type environment struct {
	place *place
	// network is the beginning of the addresses of the pods and the operator.
	network string
	out     *printer
	// stay says how long it is there.
	stay string
	// path is where kubectl is found, if none is installed.
	path string
}

// start brings everything up. What it has started is recorded in the place, which stops it.
func (e *environment) start(ctx context.Context) error {
	if err := os.MkdirAll(e.place.dir, 0o755); err != nil {
		return err
	}

	e.out.heading("Getting ready: a Kubernetes API with the operator, " + e.stay)

	if _, err := os.Stat(e.place.bin("")); err != nil {
		e.out.say("The first time, everything is built from source, Kubernetes too. That takes a few minutes, once.")
	}

	for _, step := range []struct {
		name   string
		action func(context.Context) error
	}{
		{"build deadletter", e.build},
		{"start etcd, kube-apiserver and kube-controller-manager", e.startControlPlane},
		{"install the custom resources and the operator's roles", e.install},
		{"make a folder for the volume of Postgres", e.makeClaims},
		{"make the Secret of Postgres: no DNS here, it has an address", e.makeSecret},
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

	return e.goTool(ctx, "build", "-o", bin, "./cmd/deadletter", "./hack/hostpods", "./hack/hostpods/postgres")
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

func (e *environment) spawn(name string, env []string, program string, args ...string) error {
	started, err := spawn(name, e.place.log(name), env, program, args...)
	if err != nil {
		return err
	}

	return e.place.change(func(s *state) { s.Processes = append(s.Processes, started) })
}
