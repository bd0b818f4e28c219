// Command postgres does on a host what the official Postgres image does in a container: on an empty volume it makes the
// database that its environment asks for, and then it runs the server. The server is the one that this machine has.
//
// It is run by hostpods, which tells it by HOSTPODS_VOLUMES where on the host its volumes are, and by HOSTPODS_ADDRESS
// which address is its pod's. Of the image's variables it knows POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB, each
// also with _FILE, POSTGRES_INITDB_ARGS and PGDATA. Scripts in /docker-entrypoint-initdb.d are refused.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

func main() {
	// The kernel ties a process that is to die with its parent to the thread that started it.
	runtime.LockOSThread()

	code, err := run(os.Args[1:], os.Getenv, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)

		code = 1
	}

	os.Exit(code)
}

// run makes the database if there is none, and serves it until it is told to stop.
func run(args []string, lookup func(string) string, out io.Writer) (code int, err error) {
	asked, err := readContract(lookup)
	if err != nil {
		return 0, err
	}

	who, err := unprivileged()
	if err != nil {
		return 0, err
	}

	if err := asked.initialise(who, out); err != nil {
		return 0, fmt.Errorf("make the database: %w", err)
	}

	return serve(who, append([]string{"-D", asked.data}, asked.arguments(args)...), out)
}

// arguments are the server's: the pod's own, as the image takes them, and then what keeps it to its pod.
func (c *contract) arguments(args []string) []string {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}

	return append(slices.Clip(args), "-c", "listen_addresses="+c.address, "-c", "unix_socket_directories=")
}

// serve runs the server. To be told to stop means what the image's stop signal says: sessions end, nothing is lost.
func serve(who account, args []string, out io.Writer) (code int, err error) {
	program, err := exec.LookPath("postgres")
	if err != nil {
		return 0, err
	}

	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)

	server := who.command(out, program, args...)
	if err := server.Start(); err != nil {
		return 0, err
	}

	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()

	for {
		select {
		case <-told:
			// A server that has ended at this moment needs no signal.
			_ = server.Process.Signal(syscall.SIGINT)
		case err := <-ended:
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				return 0, err
			}

			return server.ProcessState.ExitCode(), nil
		}
	}
}
