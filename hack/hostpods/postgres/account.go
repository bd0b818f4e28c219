package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is who runs the server, which refuses to run as root: the caller, or for root the user postgres, as the image
// does it.
type account struct {
	credential *syscall.Credential
}

func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}

	found, err := user.Lookup("postgres")
	if err != nil {
		found, err = user.Lookup("nobody")
	}

	if err != nil {
		return account{}, fmt.Errorf("find an unprivileged user: %w", err)
	}

	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", found.Username, err)
	}

	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", found.Username, err)
	}

	return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// own gives a file to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}

	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// command is a program that runs under the account, and ends with its caller.
func (a account) command(out io.Writer, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = a.attributes()

	return cmd
}
