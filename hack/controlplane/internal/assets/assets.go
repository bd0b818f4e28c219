// Package assets provides the control plane's binaries, built once from the modules pinned in kubernetes/go.mod.
package assets

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"deadletter.dev/deadletter/hack/controlplane/internal/lock"
	"deadletter.dev/deadletter/hack/controlplane/internal/progress"
)

// EnvironmentVariable names a folder with ready binaries, as Kubernetes test tools understand it.
const EnvironmentVariable = "KUBEBUILDER_ASSETS"

// binary is a program and the package it is built from.
type binary struct{ name, pkg string }

var servers = []binary{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
}

var kubectl = binary{"kubectl", "k8s.io/kubernetes/cmd/kubectl"}

// Ensure returns the folder that holds the binaries, after building those that are missing. kubectl is among them
// unless the installed one is recent enough.
func Ensure(ctx context.Context, out *progress.Printer) (string, error) {
	if dir := os.Getenv(EnvironmentVariable); dir != "" {
		return dir, nil
	}

	source, err := findSource()
	if err != nil {
		return "", err
	}

	dir, err := cacheDir(source)
	if err != nil {
		return "", err
	}

	if len(missing(ctx, dir, source)) == 0 {
		return dir, nil
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}

	unlock, err := lock.Acquire(ctx, filepath.Join(dir, ".lock"), func() {
		out.Linef("Another process is building the control plane; waiting for it.")
	})
	if err != nil {
		return "", err
	}
	defer unlock()

	// The other process may have built them in the meantime.
	if err := build(ctx, source, dir, missing(ctx, dir, source), out); err != nil {
		return "", err
	}

	return dir, nil
}

// cacheDir names the folder after everything that decides what the binaries contain.
func cacheDir(source source) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for the binaries: %w", err)
	}

	name := fmt.Sprintf("kubernetes-%s-etcd-%s-%s", source.kubernetes, source.etcd, source.sum)

	return filepath.Join(cache, "deadletter", "controlplane", name), nil
}

func missing(ctx context.Context, dir string, source source) []binary {
	var absent []binary

	for _, server := range servers {
		if !present(dir, server) {
			absent = append(absent, server)
		}
	}

	if !present(dir, kubectl) && !kubectlInstalled(ctx, source.kubernetes) {
		absent = append(absent, kubectl)
	}

	return absent
}

func present(dir string, program binary) bool {
	info, err := os.Stat(filepath.Join(dir, program.name))

	return err == nil && info.Mode().IsRegular()
}
