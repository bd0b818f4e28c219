package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const keptLines = 20

// layout names the files of a control plane's folder.
type layout struct{ dir string }

func (l layout) kubeconfig() string { return filepath.Join(l.dir, "kubeconfig") }
func (l layout) controllerKubeconfig() string {
	return filepath.Join(l.pki(), "controller-manager.kubeconfig")
}
func (l layout) pki() string            { return filepath.Join(l.dir, "pki") }
func (l layout) data() string           { return filepath.Join(l.dir, "etcd") }
func (l layout) logs() string           { return filepath.Join(l.dir, "logs") }
func (l layout) log(name string) string { return filepath.Join(l.logs(), name+".log") }
func (l layout) state() string          { return filepath.Join(l.dir, "state.json") }
func (l layout) lock() string           { return filepath.Join(l.dir, ".lock") }
func (l layout) certificate(name string) string {
	return filepath.Join(l.pki(), name+".crt")
}

func (l layout) key(name string) string { return filepath.Join(l.pki(), name+".key") }

// load reads what earlier calls recorded; a new folder has an empty state.
func (l layout) load() (*state, error) {
	content, err := os.ReadFile(l.state())
	if errors.Is(err, fs.ErrNotExist) {
		return &state{}, nil
	}

	if err != nil {
		return nil, err
	}

	var found state
	if err := json.Unmarshal(content, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", l.state(), err)
	}

	return &found, nil
}

// save replaces the record in one step, so that a crash never leaves half of it.
func (l layout) save(s *state) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}

	partial := l.state() + ".partial"
	if err := os.WriteFile(partial, content, 0o600); err != nil {
		return err
	}

	return os.Rename(partial, l.state())
}

// remove deletes what Up created, and the folder itself if nothing else is in it.
func (l layout) remove() error {
	var failures []error

	for _, path := range []string{l.data(), l.logs(), l.pki(), l.kubeconfig(), l.state(), l.lock()} {
		failures = append(failures, os.RemoveAll(path))
	}

	if entries, err := os.ReadDir(l.dir); err == nil && len(entries) == 0 {
		failures = append(failures, os.Remove(l.dir))
	}

	return errors.Join(failures...)
}

// tail returns the end of a component's log.
func (l layout) tail(name string) string {
	content, err := os.ReadFile(l.log(name))
	if err != nil {
		return err.Error()
	}

	lines := strings.Split(strings.TrimSpace(string(content)), "\n")

	return strings.Join(lines[max(0, len(lines)-keptLines):], "\n")
}
