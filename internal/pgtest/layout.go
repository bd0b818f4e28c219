package pgtest

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

const (
	superuser = "postgres"

	// Ports below the range that systems hand out to outgoing connections, so that nobody takes the port between a
	// crash and the restart.
	firstPort = 20000
	lastPort  = 32000
)

// layout names the files of a server's folder.
type layout struct{ dir string }

func (l layout) data() string       { return filepath.Join(l.dir, "data") }
func (l layout) log() string        { return filepath.Join(l.dir, "postgres.log") }
func (l layout) details() string    { return filepath.Join(l.dir, "server.json") }
func (l layout) postmaster() string { return filepath.Join(l.data(), "postmaster.pid") }

// details are what a client needs to reach the server.
type details struct {
	Port     int    `json:"port"`
	Password string `json:"password"`
}

// load reads the connection details, if the folder holds a server already.
func (l layout) load() (found details, exists bool, err error) {
	content, err := os.ReadFile(l.details())
	if errors.Is(err, fs.ErrNotExist) {
		return details{}, false, nil
	}

	if err != nil {
		return details{}, false, err
	}

	if err := json.Unmarshal(content, &found); err != nil {
		return details{}, false, fmt.Errorf("%s: %w", l.details(), err)
	}

	return found, true, nil
}

func (l layout) save(d details) error {
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}

	return os.WriteFile(l.details(), content, 0o600)
}

// initialise creates the cluster's files. The password keeps other users of the machine out of the superuser account.
func (l layout) initialise(account account, bin, password string) error {
	secret := filepath.Join(l.dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return err
	}
	defer os.Remove(secret)

	if err := account.own(secret); err != nil {
		return err
	}

	return run(command(account, l.dir, bin, "initdb",
		"--pgdata", l.data(), "--username", superuser, "--pwfile", secret, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--no-locale", "--no-sync"))
}

// freePort picks a loopback port that nobody listens on.
func freePort() (int, error) {
	const attempts = 100

	for range attempts {
		offset, err := rand.Int(rand.Reader, big.NewInt(lastPort-firstPort))
		if err != nil {
			return 0, err
		}

		port := firstPort + int(offset.Int64())
		if portFree(port) {
			return port, nil
		}
	}

	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

func portFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}

	return listener.Close() == nil
}
