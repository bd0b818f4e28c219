package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Build compiles the product from the source tree and returns the binary's path.
func Build(ctx context.Context, root, dir string) (string, error) {
	binary := filepath.Join(dir, "deadletter")
	return binary, run(ctx, root, nil, "go", "build", "-o", binary, "./cmd/deadletter")
}

// API is a running queue API.
type API struct {
	process *Process
	address string
}

// StartAPI migrates the database and serves it, with every option at its default.
func StartAPI(ctx context.Context, binary, databaseURL string) (*API, error) {
	env := []string{"DEADLETTER_DATABASE_URL=" + databaseURL}
	if err := run(ctx, "", env, binary, "migrate"); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "api", "--listen", address)
	cmd.Env = append(os.Environ(), env...)
	process, err := Start("deadletter api", cmd)
	if err != nil {
		return nil, err
	}
	api := &API{process: process, address: address}
	if err := process.Ready(ctx, 30*time.Second, api.ready); err != nil {
		_ = process.Stop()
		return nil, err
	}
	return api, nil
}

func (a *API) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz: %s", response.Status)
	}
	return nil
}

// Address is where it listens.
func (a *API) Address() string { return a.address }

// PID is the process id.
func (a *API) PID() int { return a.process.PID() }

// Stop drains and ends it.
func (a *API) Stop() error { return a.process.Stop() }

// freeAddress finds a port that nobody listens on.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
