// Package cluster starts and stops the processes of a control plane whose state lives in one folder.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"deadletter.dev/deadletter/hack/controlplane/internal/lock"
	"deadletter.dev/deadletter/hack/controlplane/internal/progress"
)

const (
	readyTimeout = 2 * time.Minute
	// stopGrace is short because etcd has every acknowledged write, whatever the others still do.
	stopGrace = 3 * time.Second
)

// Up starts the control plane in dir and waits until it is ready; a running one is left alone. It returns the path of
// the administrator's kubeconfig.
func Up(ctx context.Context, binaries, dir string, out *progress.Printer) (string, error) {
	place, release, err := open(ctx, dir, out)
	if err != nil {
		return "", err
	}
	defer release()

	state, err := place.load()
	if err != nil {
		return "", err
	}

	if state.complete() && newProbe(place, state.Ports).apiServer(ctx) == nil {
		out.Linef("The control plane in %s is already running.", place.dir)

		return place.kubeconfig(), nil
	}

	fresh := state.Ports == ports{}

	if err := state.stop(out); err != nil {
		return "", err
	}

	if err := start(ctx, binaries, place, state, out); err != nil {
		err = errors.Join(err, state.stop(out))
		if fresh {
			return "", errors.Join(err, place.remove())
		}

		return "", errors.Join(err, place.save(state))
	}

	return place.kubeconfig(), nil
}

// start runs all components. It records each process before it waits for it, so that an interrupted start can still
// be undone.
func start(ctx context.Context, binaries string, place layout, state *state, out *progress.Printer) error {
	if err := prepare(place, state); err != nil {
		return err
	}

	for _, dir := range []string{place.logs(), place.data()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}

	all := components(place, state.Ports)
	for i, component := range all {
		err := out.Step(i+1, len(all), "start "+component.name, func(func(string)) error {
			return launch(ctx, binaries, place, state, component)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// prepare chooses the ports and issues the certificates, once for the lifetime of the folder.
func prepare(place layout, state *state) error {
	if (state.Ports != ports{}) {
		return nil
	}

	chosen, err := choosePorts()
	if err != nil {
		return err
	}

	if err := issue(place); err != nil {
		return fmt.Errorf("issue certificates: %w", err)
	}

	if err := writeKubeconfigs(place, chosen); err != nil {
		return err
	}

	state.Ports = chosen

	return place.save(state)
}

func launch(ctx context.Context, binaries string, place layout, state *state, component component) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()

	process, err := spawn(filepath.Join(binaries, component.name), component.args, place.dir, place.log(component.name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no %s; unset KUBEBUILDER_ASSETS to build it", binaries, component.name)
	}

	if err != nil {
		return err
	}

	state.Processes = append(state.Processes, process)
	if err := place.save(state); err != nil {
		return err
	}

	return waitReady(ctx, process, component, place)
}

// waitReady polls until the component is ready, and gives up at once when its process ends.
func waitReady(ctx context.Context, process process, component component, place layout) error {
	const interval = 50 * time.Millisecond

	ticker := time.NewTicker(interval)
	defer ticker.Stop()

	for {
		err := component.ready(ctx)
		if err == nil {
			return nil
		}

		if !process.alive() {
			return fmt.Errorf("the process ended; its log ends with:\n%s", place.tail(component.name))
		}

		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}

			return fmt.Errorf("not ready: %w (%w); its log ends with:\n%s", err, ctx.Err(), place.tail(component.name))
		case <-ticker.C:
		}
	}
}

// Down stops the control plane in dir and removes its state. Without one it does nothing.
func Down(dir string, out *progress.Printer) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		out.Linef("No control plane in %s.", dir)

		return nil
	}

	place, release, err := open(context.Background(), dir, out)
	if err != nil {
		return err
	}
	defer release()

	state, err := place.load()
	if err != nil {
		return err
	}

	if err := state.stop(out); err != nil {
		return err
	}

	return place.remove()
}

// open creates the folder and locks it against concurrent calls.
func open(ctx context.Context, dir string, out *progress.Printer) (layout, func(), error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, nil, err
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return layout{}, nil, err
	}

	place := layout{dir: dir}

	release, err := lock.Acquire(ctx, place.lock(), func() {
		out.Linef("Another process is changing the control plane in %s; waiting for it.", dir)
	})

	return place, release, err
}
