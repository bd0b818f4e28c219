package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// TokenSource returns the bearer token of the next request. It is called from many goroutines, before every try.
type TokenSource func(ctx context.Context) (string, error)

// ServiceAccountTokenFile is where Kubernetes puts the token of a pod's service account.
const ServiceAccountTokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// TokenFile reads the token from a file, anew for each request: the kubelet renews it in place.
func TokenFile(path string) TokenSource {
	return func(context.Context) (string, error) {
		content, err := os.ReadFile(path) //nolint:gosec // the caller names the file
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		token := strings.TrimSpace(string(content))
		if token == "" {
			return "", errors.New("the token file is empty")
		}
		return token, nil
	}
}

// StaticToken is a token that does not change.
func StaticToken(token string) TokenSource {
	return func(context.Context) (string, error) { return token, nil }
}
