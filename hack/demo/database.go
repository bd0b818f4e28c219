package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"

	"deadletter.dev/deadletter/internal/pgtest"
)

// The names of what the default Broker's database consists of.
const (
	systemNamespace = "deadletter-system"
	postgresImage   = "docker.io/library/postgres"
	postgresSecret  = "default-postgres"
	postgresPod     = systemNamespace + "/" + postgresSecret + "-0"
)

// postgresAddress is the address of the default Broker's database.
func (e *environment) postgresAddress() string { return e.network + ".200" }

// makeClaims makes the folder of the volumes. The user of Postgres may not be able to enter the work tree.
func (e *environment) makeClaims(context.Context) error {
	dir, err := os.MkdirTemp("", "deadletter-demo-")
	if err != nil {
		return err
	}

	if err := e.place.change(func(s *state) { s.Claims = dir }); err != nil {
		return err
	}

	return os.Chmod(dir, 0o711)
}

// makeSecret makes the Secret that the operator would generate for the default Broker's database, and keeps when it is
// there: without the DNS of a cluster, its URI has to name an address.
func (e *environment) makeSecret(ctx context.Context) error {
	const name = "deadletter"

	password := rand.Text()
	uri := url.URL{
		Scheme: "postgresql", User: url.UserPassword(name, password), Host: e.postgresAddress() + ":5432", Path: "/" + name,
		RawQuery: "sslmode=disable",
	}

	file := e.place.file("database.env")
	content := fmt.Sprintf("username=%s\npassword=%s\ndatabase=%s\nuri=%s\n", name, password, name, uri.String())

	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		return err
	}

	_, err := e.kubectl(ctx, "create", "secret", "generic", postgresSecret, "-n", systemNamespace, "--from-env-file="+file)

	return err
}

// startHostpods runs pods: those of the queue API, and those of Postgres by what this machine has of it.
func (e *environment) startHostpods(context.Context) error {
	programs, err := pgtest.Programs()
	if err != nil {
		return err
	}

	current, err := e.place.load()
	if err != nil {
		return err
	}

	return e.spawn(hostpodsName, nil, e.place.bin("hostpods"), "--kubeconfig", e.place.kubeconfig(),
		"--image", "deadletter="+e.place.bin("deadletter"), "--stand-in", postgresImage+"="+e.place.bin("postgres"),
		"--network", e.network+".0/24", "--address", postgresPod+"="+e.postgresAddress(),
		"--dir", e.place.file("pods"), "--claims", current.Claims, "--path", programs)
}
