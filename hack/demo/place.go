package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// place is the folder of one set of servers, and of what has to be known to stop them.
type place struct {
	root string
	dir  string
}

// state is what runs.
type state struct {
	Processes []process `json:"processes"`
	// Claims is the folder of the pods' volumes, which the user of Postgres must be able to enter.
	Claims string `json:"claims"`
	// ControlPlane tells whether a control plane was started.
	ControlPlane bool `json:"controlPlane"`
	// Path is where kubectl is found.
	Path string `json:"path"`
	// Ready tells whether the start has come to its end.
	Ready bool `json:"ready"`
}

func (s *state) exists() bool { return s.ControlPlane || s.Claims != "" || len(s.Processes) > 0 }

// complete reports whether everything that was started still runs.
func (s *state) complete() bool {
	for _, process := range s.Processes {
		if !process.alive() {
			return false
		}
	}

	return s.Ready
}

// replaceable fails when a new start would take away what somebody may still want: queues and messages of a start that
// came to its end. Of one that did not, there is nothing to lose.
func (s *state) replaceable() error {
	if !s.Ready {
		return nil
	}

	var ended []string

	for _, process := range s.Processes {
		if !process.alive() {
			ended = append(ended, "the "+process.Name)
		}
	}

	what := "does not answer any more"
	if len(ended) > 0 {
		what = "is no longer whole: " + strings.Join(ended, " and ") + " ended"
	}

	return fmt.Errorf("what was started %s. A new start would begin without its queues and messages: "+
		"run make down to remove them, then make up", what)
}

// answers reports whether the servers do.
func (p *place) answers(ctx context.Context, current *state) bool {
	_, err := kubectl(ctx, p, current.Path, "wait", "broker/default", "-n", systemNamespace, "--for=condition=Ready",
		"--timeout=5s", "--request-timeout=5s")

	return err == nil
}

func (p *place) bin(name string) string     { return filepath.Join(filepath.Dir(p.dir), "bin", name) }
func (p *place) file(name string) string    { return filepath.Join(p.dir, name) }
func (p *place) log(name string) string     { return p.file(name + ".log") }
func (p *place) kubeconfig() string         { return p.file("kubeconfig") }
func (p *place) operatorKubeconfig() string { return p.file("operator.kubeconfig") }
func (p *place) controlPlane() string       { return p.file("controlplane") }
func (p *place) stateFile() string          { return p.file("state.json") }

// repository finds the root of the work tree.
func repository() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the work tree: %w", err)
	}

	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// open locks a place against other demos. Releasing it twice is harmless.
func open(ctx context.Context, root, name string, out *printer) (*place, func(), error) {
	p := &place{root: root, dir: filepath.Join(root, ".cache", "demo", name)}
	if err := os.MkdirAll(filepath.Dir(p.dir), 0o755); err != nil {
		return nil, nil, err
	}

	lock, err := os.OpenFile(p.dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}

	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()

	for told := false; ; told = true {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}

		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil, errors.Join(err, lock.Close())
		}

		if !told && out != nil {
			out.say("Another demo of this work tree is running; waiting for its end.")
		}

		select {
		case <-ctx.Done():
			return nil, nil, errors.Join(ctx.Err(), lock.Close())
		case <-ticker.C:
		}
	}

	return p, sync.OnceFunc(func() { lock.Close() }), nil
}

func (p *place) load() (*state, error) {
	content, err := os.ReadFile(p.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return &state{}, nil
	}

	if err != nil {
		return nil, err
	}

	var found state
	if err := json.Unmarshal(content, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", p.stateFile(), err)
	}

	return &found, nil
}

// change records what runs. It is called before a server is started where it can be, so that nothing is ever forgotten.
func (p *place) change(edit func(*state)) error {
	current, err := p.load()
	if err != nil {
		return err
	}

	edit(current)

	content, err := json.MarshalIndent(current, "", "  ")
	if err != nil {
		return err
	}

	partial := p.stateFile() + ".partial"
	if err := os.WriteFile(partial, content, 0o600); err != nil {
		return err
	}

	return os.Rename(partial, p.stateFile())
}

// stop ends everything that runs and removes the place. It does not fail because something has ended already.
func (p *place) stop() error {
	current, err := p.load()
	if err != nil {
		return err
	}

	// The operator and the pods first: they would complain about the loss of what they depend on.
	var failures []error

	failures = append(failures, inParallel(len(current.Processes), func(i int) error {
		return current.Processes[i].stop()
	}))

	if current.ControlPlane {
		failures = append(failures, p.stopControlPlane())
	}

	if err := errors.Join(failures...); err != nil {
		return err
	}

	if current.Claims != "" {
		failures = append(failures, os.RemoveAll(current.Claims))
	}

	return errors.Join(append(failures, os.RemoveAll(p.dir))...)
}

// inParallel runs a number of actions at once and waits for all.
func inParallel(count int, action func(i int) error) error {
	var group sync.WaitGroup

	failures := make([]error, count)
	for i := range count {
		group.Go(func() { failures[i] = action(i) })
	}

	group.Wait()

	return errors.Join(failures...)
}

func (p *place) stopControlPlane() error {
	tool := filepath.Join(p.root, "hack", "controlplane")
	cmd := exec.Command("go", "run", "-C", tool, ".", "down", "--dir", p.controlPlane())
	// Ctrl-C is for the demo, which is stopping already.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("stop the control plane: %w\n%s", err, out)
	}

	return nil
}

// tails shows the ends of the logs, for the reader of a failure.
func (p *place) tails() string {
	const kept = 12

	var text strings.Builder

	for _, name := range []string{operatorName, hostpodsName} {
		content, err := os.ReadFile(p.log(name))
		if err != nil {
			continue
		}

		lines := bytes.Split(bytes.TrimSpace(content), []byte{'\n'})
		fmt.Fprintf(&text, "\nThe log of the %s ends with:\n", name)

		for _, line := range lines[max(0, len(lines)-kept):] {
			fmt.Fprintf(&text, "  %s\n", line)
		}
	}

	return text.String()
}
