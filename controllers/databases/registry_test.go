package databases_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var broker = types.NamespacedName{Namespace: "shop", Name: "orders"}

func newRegistry(t *testing.T, options databases.Options) *databases.Registry {
	t.Helper()

	registry := databases.New(options)
	t.Cleanup(registry.Close)

	return registry
}

func migrate(t *testing.T, registry *databases.Registry, config databases.Config) {
	t.Helper()

	if _, err := registry.Migrate(t.Context(), broker, config, nil); err != nil {
		t.Fatal(err)
	}
}

func TestGetWaitsForTheSchema(t *testing.T) {
	t.Parallel()

	registry := newRegistry(t, databases.Options{})
	config := databases.Config{URL: pgtest.Database(t), Schema: "deadletter"}

	if _, err := registry.Get(broker); !errors.Is(err, databases.ErrNotConnected) {
		t.Fatalf("Get before Connect: %v", err)
	}

	_, err := registry.Connect(t.Context(), broker, config)
	if schemaErr := (*store.SchemaError)(nil); !errors.As(err, &schemaErr) || schemaErr.Have != 0 {
		t.Fatalf("Connect to an empty database: %v", err)
	}

	if _, err := registry.Get(broker); !errors.Is(err, databases.ErrNotConnected) {
		t.Fatalf("Get before the migration: %v", err)
	}

	migrate(t, registry, config)

	connected, err := registry.Connect(t.Context(), broker, config)
	if err != nil {
		t.Fatal(err)
	}

	got, err := registry.Get(broker)
	if err != nil || got != connected {
		t.Fatalf("Get returned another pool or %v", err)
	}
}

func TestConnectKeepsThePoolOfAConfig(t *testing.T) {
	t.Parallel()

	registry := newRegistry(t, databases.Options{})
	config := databases.Config{URL: pgtest.Database(t), Schema: "one"}
	migrate(t, registry, config)

	first, err := registry.Connect(t.Context(), broker, config)
	if err != nil {
		t.Fatal(err)
	}

	again, err := registry.Connect(t.Context(), broker, config)
	if err != nil || again != first {
		t.Fatalf("the same config got another pool or %v", err)
	}

	other := databases.Config{URL: config.URL, Schema: "two"}
	migrate(t, registry, other)

	moved, err := registry.Connect(t.Context(), broker, other)
	if err != nil || moved == first {
		t.Fatalf("another config got the old pool or %v", err)
	}

	if err := first.Ping(t.Context()); err == nil {
		t.Error("the replaced pool is still open")
	}
}

func TestConnectedListsUsablePools(t *testing.T) {
	t.Parallel()

	registry := newRegistry(t, databases.Options{})
	address := pgtest.Database(t)
	second := types.NamespacedName{Namespace: "shop", Name: "aside"}
	empty := types.NamespacedName{Namespace: "shop", Name: "empty"}

	for key, schema := range map[types.NamespacedName]string{broker: "one", second: "two"} {
		config := databases.Config{URL: address, Schema: schema}
		migrate(t, registry, config)

		if _, err := registry.Connect(t.Context(), key, config); err != nil {
			t.Fatal(err)
		}
	}

	config := databases.Config{URL: address, Schema: "three"}
	if _, err := registry.Connect(t.Context(), empty, config); !errors.Is(err, store.ErrSchema) {
		t.Fatal(err)
	}

	names := func() (got []string) {
		for key := range registry.Connected() {
			got = append(got, key.Name)
		}

		return got
	}

	if diff := cmp.Diff([]string{"aside", "orders"}, names()); diff != "" {
		t.Error(diff)
	}

	registry.Forget(broker)

	if diff := cmp.Diff([]string{"aside"}, names()); diff != "" {
		t.Error(diff)
	}
}

func TestDialLeadsBareNamesToTheNamespace(t *testing.T) {
	t.Parallel()

	address, err := url.Parse(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}

	server := address.Host
	address.Host = "pg-rw:5432"

	var asked []string

	dial := func(ctx context.Context, network, target string) (net.Conn, error) {
		asked = append(asked, target)

		return (&net.Dialer{}).DialContext(ctx, network, server)
	}

	registry := newRegistry(t, databases.Options{Dial: dial})
	migrate(t, registry, databases.Config{URL: address.String(), Schema: "deadletter"})

	if diff := cmp.Diff([]string{"pg-rw.shop.svc:5432"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestDialFallsBackWhenThereIsNoService(t *testing.T) {
	t.Parallel()

	address, err := url.Parse(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}

	server := address.Host
	address.Host = "pg:5432"

	dial := func(ctx context.Context, network, target string) (net.Conn, error) {
		if target != "pg:5432" {
			return nil, &net.DNSError{Err: "no such host", Name: target, IsNotFound: true}
		}

		return (&net.Dialer{}).DialContext(ctx, network, server)
	}

	registry := newRegistry(t, databases.Options{Dial: dial})
	migrate(t, registry, databases.Config{URL: address.String(), Schema: "deadletter"})
}

func TestQualifyHost(t *testing.T) {
	t.Parallel()

	for host, want := range map[string]string{
		"pg-rw":           "pg-rw.shop.svc",
		"pg-rw.other":     "pg-rw.other",
		"db.example.com":  "db.example.com",
		"localhost":       "localhost",
		"127.0.0.1":       "127.0.0.1",
		"::1":             "::1",
		"/var/run/socket": "/var/run/socket",
		"":                "",
	} {
		if got := databases.QualifyHost(host, "shop"); got != want {
			t.Errorf("QualifyHost(%q) = %q, want %q", host, got, want)
		}
	}
}
