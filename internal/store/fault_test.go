package store_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

func TestDiagnose(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	for name, test := range map[string]struct {
		change func(u *url.URL)
		dial   func(ctx context.Context, network, address string) (net.Conn, error)
		want   store.Fault
		text   string
	}{
		"wrong password": {
			change: func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), password) },
			want:   store.FaultCredentials, text: "the server refuses the user or its password",
		},
		"no such database": {
			change: func(u *url.URL) { u.Path = "/" + password },
			want:   store.FaultCredentials, text: "the database does not exist",
		},
		"nobody listens": {
			change: func(u *url.URL) { u.Host = closedPort(t) },
			want:   store.FaultUnavailable, text: "the connection is refused",
		},
		"unknown name": {
			change: func(u *url.URL) { u.Host = password + ".invalid" },
			dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: password, IsNotFound: true}
			},
			want: store.FaultUnavailable, text: "the server's name does not resolve",
		},
		"cut off": {
			dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed },
			want: store.FaultUnavailable, text: "the connection fails",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, err := url.Parse(pgtest.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				test.change(address)
			}
			opened, err := store.Open(t.Context(), store.Options{
				DatabaseURL: address.String(), Schema: schema, DialFunc: test.dial,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(opened.Close)
			fault, text := store.Diagnose(opened.Ping(t.Context()))
			if fault != test.want || text != test.text {
				t.Errorf("fault %d %q, want %d %q", fault, text, test.want, test.text)
			}
			if strings.Contains(text, password) {
				t.Errorf("%q gives away what the URL holds", text)
			}
		})
	}
}

func TestDiagnosePrivilege(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	administer(t, address, "CREATE SCHEMA deadletter; CREATE ROLE fault_guest LOGIN PASSWORD 'guest'")
	t.Cleanup(func() {
		if err := dropRole(address); err != nil {
			t.Error(err)
		}
	})
	guest, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	guest.User = url.UserPassword("fault_guest", "guest")
	_, err = store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: guest.String(), Schema: schema})
	if fault, _ := store.Diagnose(err); fault != store.FaultPrivilege {
		t.Errorf("fault %d of %v", fault, err)
	}
}

func TestDiagnoseOfAnythingElseSaysNothing(t *testing.T) {
	t.Parallel()
	fault, text := store.Diagnose(errors.New("user=app password=secret"))
	if fault != store.FaultOther || text != "an operation fails" {
		t.Errorf("fault %d %q", fault, text)
	}
}

// closedPort returns the address of a port on which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

func dropRole(address string) error {
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		return err
	}
	_, err = conn.Exec(context.Background(), "DROP ROLE fault_guest")
	return errors.Join(err, conn.Close(context.Background()))
}
