package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
)

// Ports below the range that systems hand out to outgoing connections, so that a stopped control plane finds its
// ports free again.
const (
	firstPort = 20000
	lastPort  = 30000
)

type ports struct {
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcd_peer"`
	APIServer         int `json:"api_server"`
	ControllerManager int `json:"controller_manager"`
}

// choosePorts finds free loopback ports. All are held until the last is found, so they differ.
func choosePorts() (ports, error) {
	const (
		needed   = 4
		attempts = 1000
	)

	var (
		found   []int
		release []func() error
	)

	for range attempts {
		offset, err := rand.Int(rand.Reader, big.NewInt(lastPort-firstPort))
		if err != nil {
			return ports{}, err
		}

		port := firstPort + int(offset.Int64())

		listener, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}

		found, release = append(found, port), append(release, listener.Close)
		if len(found) == needed {
			break
		}
	}

	var failures []error
	for _, closeListener := range release {
		failures = append(failures, closeListener())
	}

	if err := errors.Join(failures...); err != nil {
		return ports{}, err
	}

	if len(found) < needed {
		return ports{}, fmt.Errorf("no free ports between %d and %d", firstPort, lastPort)
	}

	return ports{Etcd: found[0], EtcdPeer: found[1], APIServer: found[2], ControllerManager: found[3]}, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func loopbackURL(port int) string { return "https://" + loopback(port) }
