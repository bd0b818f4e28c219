package store_test

import (
	"testing"

	"deadletter.dev/deadletter/internal/store"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	inNamespace := func(host string) string {
		if host == "pg" {
			return "pg.shop.svc"
		}
		return host
	}
	identity := func(url, schema string) string {
		t.Helper()
		id, err := store.Identity(url, schema, inNamespace)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		return id
	}
	base := identity("postgres://app:secret@pg.shop.svc:5432/app", "deadletter")
	for name, url := range map[string]string{
		"another user":     "postgres://other:word@pg.shop.svc:5432/app",
		"a parameter":      "postgres://app:secret@pg.shop.svc:5432/app?sslmode=disable&application_name=x",
		"the default port": "postgresql://app:secret@pg.shop.svc/app",
		"a bare name":      "postgres://app:secret@pg/app",
		"another case":     "postgres://app:secret@PG.Shop.svc./app",
		"a keyword string": "host=pg.shop.svc user=app dbname=app",
	} {
		if identity(url, "deadletter") != base {
			t.Errorf("%s makes another identity", name)
		}
	}
	for name, other := range map[string]string{
		"host":     identity("postgres://app:secret@pg2.shop.svc:5432/app", "deadletter"),
		"port":     identity("postgres://app:secret@pg.shop.svc:5433/app", "deadletter"),
		"database": identity("postgres://app:secret@pg.shop.svc:5432/app2", "deadletter"),
		"schema":   identity("postgres://app:secret@pg.shop.svc:5432/app", "deadletter2"),
		"standby":  identity("postgres://app:secret@pg.shop.svc,pg2.shop.svc/app", "deadletter"),
	} {
		if other == base {
			t.Errorf("another %s makes the same identity", name)
		}
	}
	for _, url := range []string{"", " \n", "postgres://pg:port/app", "secret", "postgres://pg/app\n"} {
		if _, err := store.Identity(url, "deadletter", nil); err == nil {
			t.Errorf("%q passes for a connection string", url)
		}
	}
}
