package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the operating-system user that runs the server. Postgres refuses to run as root.
type account struct {
	name       string
	credential *syscall.Credential
}

// unprivileged picks the account: the caller's own, or postgres (else nobody) when the caller is root.
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

	return account{
		name:       found.Username,
		credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	}, nil
}

// attributes puts a process under the account, in a group of its own so that Ctrl-C reaches only the caller.
func (a account) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: a.credential, Setpgid: true}
}

// own gives a file to the account.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}

	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// canEnter explains which folder on the way to the data is closed to the account, such as root's home.
func (a account) canEnter(dir string) error {
	if a.credential == nil {
		return nil
	}

	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}

		stat, ok := info.Sys().(*syscall.Stat_t)
		owned := ok && stat.Uid == a.credential.Uid

		if info.Mode()&0o001 == 0 && !owned {
			return fmt.Errorf("user %s, who runs Postgres for root, may not enter %s: choose another folder", a.name, dir)
		}

		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
