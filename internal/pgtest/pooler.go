package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoPooler reports that the machine has no PgBouncer.
var ErrNoPooler = errors.New("no PgBouncer found: run `make deps` (Debian package pgbouncer)")

// poolerFolders are where packages put PgBouncer beside the folders of PATH.
var poolerFolders = []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"}

const defaultSessions = 2

// PoolerOptions describes a PgBouncer.
type PoolerOptions struct {
	// Sessions is how many sessions with the server all clients share; 0 means two.
	Sessions int
	// Settings are extra lines of the section [pgbouncer], such as "query_wait_timeout": "5".
	Settings map[string]string
}

// Pooler starts a PgBouncer in transaction mode before a database and returns the URL that leads through it. It ends
// with the test; a test that failed gets its log.
func Pooler(t testing.TB, database string, options PoolerOptions) string {
	t.Helper()

	started, err := startPooler(t.Context(), database, options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PgBouncer log:\n%s", started.log())
		}

		if err := started.stop(); err != nil {
			t.Error(err)
		}
	})

	return started.url
}

var poolerVersion = regexp.MustCompile(`PgBouncer (\d+)\.(\d+)`)

// PoolerPrepares reports whether the installed PgBouncer can keep its clients' prepared statements apart, which it does
// from 1.21 on if its setting max_prepared_statements says how many.
func PoolerPrepares(t testing.TB) bool {
	t.Helper()

	program, err := locatePooler()
	if err != nil {
		t.Fatal(err)
	}

	out, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}

	match := poolerVersion.FindSubmatch(out)
	if match == nil {
		t.Fatalf("PgBouncer does not say its version: %s", out)
	}

	major, _ := strconv.Atoi(string(match[1]))
	minor, _ := strconv.Atoi(string(match[2]))

	return major > 1 || minor >= 21
}

// pooler is a running PgBouncer.
type pooler struct {
	dir      string
	url      string
	watchdog *watchdog
	cmd      *exec.Cmd
	// exited is closed when the process has been reaped.
	exited chan struct{}
}

func startPooler(ctx context.Context, database string, options PoolerOptions) (*pooler, error) {
	program, err := locatePooler()
	if err != nil {
		return nil, err
	}

	account, err := unprivileged()
	if err != nil {
		return nil, err
	}

	dir, err := os.MkdirTemp("", "pgtest-pooler-")
	if err != nil {
		return nil, err
	}

	started := &pooler{dir: dir}
	if err := started.start(ctx, account, program, database, options); err != nil {
		return nil, errors.Join(fmt.Errorf("start PgBouncer: %w", err), started.stop())
	}

	return started, nil
}

// locatePooler returns the program, of which packages make one for administrators.
func locatePooler() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return filepath.Abs(path)
	}

	for _, dir := range poolerFolders {
		if path := filepath.Join(dir, "pgbouncer"); executable(path) {
			return path, nil
		}
	}

	return "", ErrNoPooler
}

func (p *pooler) start(ctx context.Context, account account, program, database string, options PoolerOptions) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	if err := account.own(p.dir); err != nil {
		return err
	}

	dog, err := startWatchdog(account, watched{dir: p.dir, pidFile: p.pidFile(), argument: p.settings(), temporary: true})
	if err != nil {
		return err
	}

	p.watchdog = dog

	for {
		port, err := freePort()
		if err != nil {
			return err
		}

		if err := p.configure(account, database, port, options); err != nil {
			return err
		}

		if err := p.launch(account, program); err != nil {
			return err
		}

		ready := wait(ctx, func() bool { return p.hasExited() || p.answers(ctx) })
		if ready == nil && !p.hasExited() {
			return nil
		}

		// Another process may have won the race for the port.
		if p.hasExited() && ctx.Err() == nil && !portFree(port) {
			continue
		}

		return fmt.Errorf("it does not answer: %w", errors.Join(ready, errors.New("its log:\n"+p.log())))
	}
}

func (p *pooler) settings() string { return filepath.Join(p.dir, "pgbouncer.ini") }
func (p *pooler) users() string    { return filepath.Join(p.dir, "userlist.txt") }
func (p *pooler) pidFile() string  { return filepath.Join(p.dir, "pgbouncer.pid") }
func (p *pooler) logFile() string  { return filepath.Join(p.dir, "pgbouncer.log") }

// configure writes the files that lead to a database, and the URL that leads to them.
func (p *pooler) configure(account account, database string, port int, options PoolerOptions) error {
	through, err := url.Parse(database)
	if err != nil {
		// The parse error would repeat the password.
		return errors.New("the database's address is not a postgres:// URL")
	}

	target, err := pgx.ParseConfig(database)
	if err != nil {
		return errors.New("the database's address is not a postgres:// URL")
	}

	through.Host, through.RawQuery = net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "sslmode=disable"
	p.url = through.String()

	settings := map[string]string{
		"listen_addr":       "127.0.0.1",
		"listen_port":       strconv.Itoa(port),
		"unix_socket_dir":   "",
		"pidfile":           p.pidFile(),
		"auth_type":         "scram-sha-256",
		"auth_file":         p.users(),
		"pool_mode":         "transaction",
		"default_pool_size": strconv.Itoa(cmp.Or(options.Sessions, defaultSessions)),
	}
	maps.Copy(settings, options.Settings)

	var text strings.Builder

	fmt.Fprintf(&text, "[databases]\n%s = host=%s port=%d\n\n[pgbouncer]\n", target.Database, target.Host, target.Port)

	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = %s\n", name, settings[name])
	}

	quoted := func(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

	return errors.Join(
		p.write(account, p.settings(), text.String()),
		p.write(account, p.users(), quoted(target.User)+" "+quoted(target.Password)+"\n"),
	)
}

func (p *pooler) write(account account, path, content string) error {
	return errors.Join(os.WriteFile(path, []byte(content), 0o600), account.own(path))
}

func (p *pooler) launch(account account, program string) error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	cmd := command(account, p.dir, filepath.Dir(program), filepath.Base(program), p.settings())
	cmd.Stdout, cmd.Stderr = log, log

	if err := cmd.Start(); err != nil {
		return err
	}

	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited

	go func() {
		defer close(exited)
		// The exit status carries nothing: the log says why it ended.
		_ = cmd.Wait()
	}()

	return nil
}

func (p *pooler) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// answers reports whether a client gets through to the server.
func (p *pooler) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return false
	}

	return errors.Join(conn.Ping(ctx), conn.Close(ctx)) == nil
}

func (p *pooler) log() string {
	content, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}

	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))

	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

// stop ends the process, which has nothing to lose.
func (p *pooler) stop() error {
	var err error

	if p.cmd != nil && !p.hasExited() {
		err = p.cmd.Process.Kill()
		<-p.exited
	}

	err = errors.Join(err, os.RemoveAll(p.dir))

	if p.watchdog != nil {
		err = errors.Join(err, p.watchdog.release())
	}

	return err
}
