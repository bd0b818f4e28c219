package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// rabbitProgram is where Debian has the server itself, without the wrapper that insists on the system's own folders.
const rabbitProgram = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// RabbitMQ is a server with its files in a temporary folder.
type RabbitMQ struct {
	mapper, process *Process
	dir, address    string
}

// RabbitMQMissing tells why there can be no server, or nothing.
func RabbitMQMissing(context.Context) string {
	if _, err := os.Stat(rabbitProgram); err != nil {
		return "there is no RabbitMQ; make bench-deps installs it"
	}
	return ""
}

// StartRabbitMQ starts a server of one node, with a port mapper of its own.
func StartRabbitMQ(ctx context.Context) (*RabbitMQ, error) {
	dir, err := os.MkdirTemp("", "bench-rabbitmq-")
	if err != nil {
		return nil, err
	}
	rabbit := &RabbitMQ{dir: dir}
	if err := rabbit.start(ctx); err != nil {
		return nil, errors.Join(err, rabbit.Stop())
	}
	return rabbit, nil
}

func (r *RabbitMQ) start(ctx context.Context) error {
	attributes, err := r.account()
	if err != nil {
		return err
	}
	var addresses [3]string
	for i := range addresses {
		if addresses[i], err = freeAddress(); err != nil {
			return err
		}
	}
	r.address = addresses[0]
	_, port, _ := net.SplitHostPort(addresses[0])
	_, distribution, _ := net.SplitHostPort(addresses[1])
	_, mapper, _ := net.SplitHostPort(addresses[2])
	env := append(os.Environ(),
		"HOME="+r.dir,
		"ERL_EPMD_PORT="+mapper,
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=bench"+port+"@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT="+port,
		"RABBITMQ_DIST_PORT="+distribution,
		"RABBITMQ_MNESIA_BASE="+filepath.Join(r.dir, "data"),
		"RABBITMQ_LOG_BASE="+filepath.Join(r.dir, "log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(r.dir, "plugins"),
		"RABBITMQ_CONF_ENV_FILE="+filepath.Join(r.dir, "none"),
		"RABBITMQ_CONFIG_FILE="+filepath.Join(r.dir, "none"),
	)
	command := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = r.dir, env
		copied := *attributes
		cmd.SysProcAttr = &copied
		return cmd
	}
	// Started by the server it would be a daemon that stays.
	if r.mapper, err = Start("epmd", command("epmd")); err != nil {
		return err
	}
	if err := r.mapper.Ready(ctx, 10*time.Second, dialable(addresses[2])); err != nil {
		return err
	}
	if r.process, err = Start("RabbitMQ", command(rabbitProgram)); err != nil {
		return err
	}
	return r.process.Ready(ctx, 60*time.Second, dialable(r.address))
}

// account gives the folder to the server's user when the caller is root, whom the server would refuse to be.
func (r *RabbitMQ) account() (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	found, err := user.Lookup("rabbitmq")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", found.Username, err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", found.Username, err)
	}
	if err := os.Chown(r.dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// URL is where it listens.
func (r *RabbitMQ) URL() string { return "amqp://guest:guest@" + r.address + "/" }

// PID is the process id.
func (r *RabbitMQ) PID() int { return r.process.PID() }

// Stop ends it and removes its files.
func (r *RabbitMQ) Stop() error {
	var err error
	for _, process := range []*Process{r.process, r.mapper} {
		if process != nil {
			err = errors.Join(err, process.Stop())
		}
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}
