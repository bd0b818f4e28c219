package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// anybody may come from anywhere, with a password.
//
//nolint:dupword // every database, every user
const anybody = `
host	all	all	0.0.0.0/0	scram-sha-256
host	all	all	::/0	scram-sha-256
`

// initialise makes the database where there is none yet. It appears under its name only when it is complete.
func (c *contract) initialise(who account, out io.Writer) error {
	if _, err := os.Stat(filepath.Join(c.data, "PG_VERSION")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	partial := c.data + ".partial"

	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o700), who.own(partial)); err != nil {
		return err
	}

	if err := c.initdb(who, partial, out); err != nil {
		return err
	}

	if err := c.createDatabase(who, partial, out); err != nil {
		return err
	}

	return os.Rename(partial, c.data)
}

// initdb asks everybody for the password, where the image trusts its own container: on a host, the server's neighbours
// are not its own.
func (c *contract) initdb(who account, dir string, out io.Writer) error {
	program, err := exec.LookPath("initdb")
	if err != nil {
		return err
	}

	secret := dir + ".password"
	if err := os.WriteFile(secret, []byte(c.password+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(secret)

	if err := who.own(secret); err != nil {
		return err
	}

	// A database of a demo need not survive the loss of power in its first second.
	args := append([]string{
		"--pgdata", dir, "--username", c.user, "--pwfile", secret, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--no-sync",
	}, c.initdbArgs...)

	if err := who.command(out, program, args...).Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}

	hba, err := os.OpenFile(filepath.Join(dir, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}

	_, err = hba.WriteString(anybody)

	return errors.Join(err, hba.Close())
}

// createDatabase needs no running server: in single-user mode, one process works on the files.
func (c *contract) createDatabase(who account, dir string, out io.Writer) error {
	const given = "postgres"
	if c.database == given {
		return nil
	}

	program, err := exec.LookPath("postgres")
	if err != nil {
		return err
	}

	single := who.command(out, program, "--single", "-D", dir, "-c", "exit_on_error=on", given)
	single.Stdin = strings.NewReader(`CREATE DATABASE "` + strings.ReplaceAll(c.database, `"`, `""`) + "\"\n")

	if err := single.Run(); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}

	return nil
}
