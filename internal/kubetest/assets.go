package kubetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	modulePath       = "deadletter.dev/deadletter"
	binariesVariable = "KUBEBUILDER_ASSETS"
)

// repository finds the root of the work tree, upwards from the package under test.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}

		if bytes.HasPrefix(content, []byte("module "+modulePath+"\n")) {
			return dir, nil
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("tests that need a control plane run inside the repository")
		}

		dir = parent
	}
}

// assets returns the folder of the control plane's binaries. Building them takes minutes the first time, so the
// progress is shown.
func assets(root string) (string, error) {
	if dir := os.Getenv(binariesVariable); dir != "" {
		return dir, nil
	}

	cmd := exec.Command("go", "run", "-C", filepath.Join(root, "hack", "controlplane"), ".", "assets")
	cmd.Stderr = os.Stderr

	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}

	return string(bytes.TrimSpace(out)), nil
}
