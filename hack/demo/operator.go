package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// startOperator runs the operator as a process with the rights of its ServiceAccount, and nothing more.
func (e *environment) startOperator(ctx context.Context) error {
	if err := e.writeOperatorKubeconfig(ctx); err != nil {
		return err
	}

	probes := probeAddress(e.network)

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
