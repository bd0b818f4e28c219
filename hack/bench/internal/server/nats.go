package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// NATSCommand is the first argument that makes this program a NATS server.
const NATSCommand = "nats-server"

// RunNATS serves until ctx ends. JetStream flushes every message to the disk before it confirms it.
func RunNATS(ctx context.Context, dir, address string) error {
	host, port, err := splitAddress(address)
	if err != nil {
		return err
	}
	nats, err := natsserver.NewServer(&natsserver.Options{
		Host: host, Port: port, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	nats.Start()
	if !nats.ReadyForConnections(30 * time.Second) {
		return errors.New("the NATS server does not answer")
	}
	<-ctx.Done()
	nats.Shutdown()
	nats.WaitForShutdown()
	return nil
}

// NATS is a server in a process of its own, with its files in a temporary folder.
type NATS struct {
	process *Process
	dir     string
	address string
}

// StartNATS starts this program once more, as a NATS server.
func StartNATS(ctx context.Context) (*NATS, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-nats-")
	if err != nil {
		return nil, err
	}
	started := &NATS{dir: dir, address: address}
	if started.process, err = Start("NATS", exec.Command(program, NATSCommand, dir, address)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := started.process.Ready(ctx, 30*time.Second, dialable(address)); err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return started, nil
}

// URL is where it listens.
func (n *NATS) URL() string { return "nats://" + n.address }

// PID is the process id.
func (n *NATS) PID() int { return n.process.PID() }

// Stop ends it and removes its files.
func (n *NATS) Stop() error { return errors.Join(n.process.Stop(), os.RemoveAll(n.dir)) }

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(text); err != nil {
		return "", 0, fmt.Errorf("port of %s: %w", address, err)
	}
	return host, port, nil
}

// dialable checks that somebody listens.
func dialable(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
