package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNotInstalled reports that the machine has no Postgres server binaries.
var ErrNotInstalled = errors.New("no Postgres server found: run `make deps` (Debian package postgresql), or set " +
	DatabaseURLVariable + " to an existing server")

// installPatterns are the folders where distributions keep the server binaries outside PATH.
var installPatterns = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
}

var versionDigits = regexp.MustCompile(`\d+`)

// locate returns the folder holding initdb and postgres: the one PATH names, else the newest installed.
func locate() (string, error) {
	for _, dir := range candidates() {
		if executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}

	return "", ErrNotInstalled
}

func candidates() []string {
	var dirs []string

	if path, err := exec.LookPath("initdb"); err == nil {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(resolved))
		}
	}

	if path, err := exec.LookPath("pg_config"); err == nil {
		if out, err := exec.Command(path, "--bindir").Output(); err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}

	return append(dirs, installed(installPatterns)...)
}

// installed expands the patterns, newest version first.
func installed(patterns []string) []string {
	var dirs []string

	for _, pattern := range patterns {
		// Glob fails only on malformed patterns, and these are constants.
		matches, _ := filepath.Glob(pattern)
		dirs = append(dirs, matches...)
	}

	slices.SortStableFunc(dirs, func(a, b string) int { return version(b) - version(a) })

	return dirs
}

// version reads the major version from an installation folder such as /usr/lib/postgresql/15/bin.
func version(dir string) int {
	number, err := strconv.Atoi(versionDigits.FindString(filepath.Base(filepath.Dir(dir))))
	if err != nil {
		return 0
	}

	return number
}

func executable(path string) bool {
	info, err := os.Stat(path)

	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// command prepares a server program; it runs in dir because the caller's folder may be closed to the account.
func command(account account, dir, bin, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGOPTIONS=", "PGDATA=")
	cmd.SysProcAttr = account.attributes()

	return cmd
}

// run executes a server program to its end.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(out)))
	}

	return nil
}
