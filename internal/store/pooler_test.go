package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
	"deadletter.dev/deadletter/internal/store/storetest"
)

// keeping makes PgBouncer keep prepared statements, whatever its default is.
var keeping = map[string]string{"max_prepared_statements": "100"}

// pooled is the same database with a store that reaches it through a pooler in transaction mode.
func (d database) pooled(t *testing.T, pooler store.Pooler, options store.Options) database {
	t.Helper()
	var settings map[string]string
	if pooler == store.PreparingPooler {
		settings = keeping
	}
	options.Pooler = pooler
	through := pgtest.Pooler(t, d.url, pgtest.PoolerOptions{Settings: settings})
	return database{Store: openStore(t, through, options), url: d.url, raw: d.raw}
}

// poolers are the kinds that the installed PgBouncer can be, beside none.
func poolers(t *testing.T) []store.Pooler {
	t.Helper()
	if pgtest.PoolerPrepares(t) {
		return []store.Pooler{store.TransactionPooler, store.PreparingPooler}
	}
	return []store.Pooler{store.TransactionPooler}
}

func TestEngineConformanceThroughAPooler(t *testing.T) {
	t.Parallel()
	for _, pooler := range poolers(t) {
		t.Run(string(pooler), func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Fixture {
				t.Helper()
				return newDatabase(t).pooled(t, pooler, store.Options{}).fixture()
			})
		})
	}
}

// stranger is another client of a pooler.
func stranger(t *testing.T, through string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// hostile is what others may leave in a session.
var hostile = map[string]string{
	"synchronous_commit": "off", "statement_timeout": "7s", "lock_timeout": "7s",
	"idle_in_transaction_session_timeout": "7s", "default_transaction_isolation": "serializable",
	"enable_seqscan": "on", "enable_bitmapscan": "on", "enable_mergejoin": "on", "jit": "on",
}

// leave has somebody else leave these settings in the one session that a pooler has.
func leave(t *testing.T, other *pgx.Conn, settings map[string]string) {
	t.Helper()
	for name, value := range settings {
		if _, err := other.Exec(t.Context(), fmt.Sprintf("SET %s = '%s'", name, value)); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads settings as somebody else sees them.
func read(t *testing.T, other *pgx.Conn, names map[string]string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name := range names {
		var value string
		if err := other.QueryRow(t.Context(), "SHOW "+name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		found[name] = value
	}
	return found
}

func TestPooledStatementsFindTheirSettings(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"synchronous_commit": "on", "statement_timeout": "1500ms", "lock_timeout": "1500ms",
		"idle_in_transaction_session_timeout": "1500ms", "transaction_isolation": "read committed",
		"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_mergejoin": "off", "jit": "off",
	}
	for _, pooler := range poolers(t) {
		through := pgtest.Pooler(t, newDatabase(t).url, pgtest.PoolerOptions{Sessions: 1, Settings: keepingFor(pooler)})
		pooled := openStore(t, through, store.Options{Pooler: pooler, StatementTimeout: 1500 * time.Millisecond})
		other := stranger(t, through)
		leave(t, other, hostile)
		for way, run := range pooled.Ways() {
			if way == "nothing" {
				continue
			}
			got := map[string]string{}
			for name := range want {
				values, err := run(t.Context(), "SELECT current_setting($1)", name)
				if err != nil {
					t.Fatalf("%s, %s: %v", pooler, way, err)
				}
				got[name] = values[0]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: %s", pooler, way, diff)
			}
		}
		// And nothing of it is left for others.
		if diff := cmp.Diff(hostile, read(t, other, hostile)); diff != "" {
			t.Errorf("%s: another client finds its session changed: %s", pooler, diff)
		}
	}
}

func keepingFor(pooler store.Pooler) map[string]string {
	if pooler == store.PreparingPooler {
		return keeping
	}
	return nil
}

func TestPooledCommitsKeepStrongerDefaults(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, `ALTER DATABASE "`+d.raw.Config().ConnConfig.Database+`" SET synchronous_commit = remote_apply`)
	p := d.pooled(t, store.TransactionPooler, store.Options{})
	if got, err := p.Setting(t.Context(), "synchronous_commit"); err != nil || got != "remote_apply" {
		t.Errorf("transactions have %s (%v)", got, err)
	}
}

// noteCommits makes every table that a message is accepted or ended in note what its transactions wait for. Claims
// wait for nothing, on purpose.
func noteCommits(t *testing.T, d database) {
	t.Helper()
	d.exec(t, `CREATE TABLE noted (place text, value text)`)
	d.exec(t, `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO public.noted VALUES (tg_table_name, current_setting('synchronous_commit')); RETURN NULL; END $$`)
	d.exec(t, `CREATE TRIGGER note AFTER INSERT OR UPDATE ON deadletter.message
		FOR EACH ROW WHEN (NEW.status <> 'processing') EXECUTE FUNCTION note()`)
	places := []string{"enqueue_key"}
	for slot := range 8 {
		places = append(places, fmt.Sprintf("log_%d", slot), fmt.Sprintf("closed_%d", slot))
	}
	for _, place := range places {
		d.exec(t, fmt.Sprintf(`CREATE TRIGGER note AFTER INSERT ON deadletter.%s
			FOR EACH STATEMENT EXECUTE FUNCTION note()`, place))
	}
}

// Whoever shares the pool may leave its sessions as they like: nothing accepted may be lost by that.
func TestPooledMessagesAreDurable(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	noteCommits(t, d)
	through := pgtest.Pooler(t, d.url, pgtest.PoolerOptions{Sessions: 1})
	p := database{Store: openStore(t, through, store.Options{Pooler: store.TransactionPooler}), url: d.url, raw: d.raw}
	other := stranger(t, through)
	leave(t, other, hostile)
	f := p.fixture()
	send := func() {
		leave(t, other, hostile)
		if _, err := f.Enqueue(t.Context(), orders, []store.NewMessage{{}, {Priority: 3}, {GroupKey: "k"}}); err != nil {
			t.Fatal(err)
		}
		keyed := []store.KeyedMessages{{Key: "k", Messages: []store.NewMessage{{}}}}
		if _, err := f.EnqueueOnce(t.Context(), orders, keyed); err != nil {
			t.Fatal(err)
		}
	}
	take := func() []message.Message {
		leave(t, other, hostile)
		held, err := f.Claim(t.Context(), orders, store.ClaimParams{Max: 10})
		if err != nil || len(held) == 0 {
			t.Fatalf("claimed %d: %v", len(held), err)
		}
		leave(t, other, hostile)
		return held
	}
	send()
	if _, err := f.Succeed(t.Context(), orders, refs(take())); err != nil {
		t.Fatal(err)
	}
	send()
	var failed []store.FailedLease
	for _, ref := range refs(take()) {
		failed = append(failed, store.FailedLease{LeaseRef: ref, Report: message.Report{Permanent: true}})
	}
	if _, err := f.Fail(t.Context(), orders, failed); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"log", "closed", "message", "enqueue_key"} {
		if n := d.count(t, `SELECT count(*) FROM noted WHERE starts_with(place, $1)`, place); n == 0 {
			t.Errorf("nothing was written to %s", place)
		}
	}
	if n := d.count(t, `SELECT count(*) FROM noted WHERE value <> 'on'`); n > 0 {
		t.Errorf("%d statements were committed without waiting for the disk", n)
	}
}

// A statement that fails, on its own or when it is committed, says so and leaves a connection that goes on.
func TestPooledFailuresEndTheirTransaction(t *testing.T) {
	t.Parallel()
	for _, pooler := range poolers(t) {
		t.Run(string(pooler), func(t *testing.T) {
			t.Parallel()
			p := newDatabase(t).pooled(t, pooler, store.Options{MaxConns: 1})
			p.exec(t, `CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
			for way, run := range p.Ways() {
				if _, err := run(t.Context(), `INSERT INTO late VALUES (1), (1) RETURNING n::text`); code(err) != "23505" {
					t.Errorf("%s: what fails at the commit: %v", way, err)
				}
				if _, err := run(t.Context(), `INSERT INTO late VALUES (1 / $1) RETURNING n::text`, 0); code(err) != "22012" {
					t.Errorf("%s: what fails at once: %v", way, err)
				}
				if got, err := run(t.Context(), `SELECT 'x' || $1`, "y"); err != nil || way != "nothing" && got[0] != "xy" {
					t.Errorf("%s: after that: %v, %v", way, got, err)
				}
			}
			if n := p.count(t, `SELECT count(*) FROM late`); n != 0 {
				t.Errorf("%d rows are left of what failed", n)
			}
			if n := p.NewConnections(); n != 1 {
				t.Errorf("it took %d connections", n)
			}
		})
	}
}

func code(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}

func TestMigratorsTakeTurnsThroughAPooler(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, pgtest.Database(t), store.Options{})
	options := store.MigrateOptions{
		DatabaseURL: pgtest.Pooler(t, d.url, pgtest.PoolerOptions{}), Schema: schema, Pooler: store.TransactionPooler,
	}
	var group errgroup.Group
	for range 5 {
		group.Go(func() error {
			_, err := store.Migrate(t.Context(), options)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	if err := d.CheckSchema(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	if dropped, err := store.DropSchema(t.Context(), options); err != nil || !dropped {
		t.Errorf("dropped %t: %v", dropped, err)
	}
	if n := d.count(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n > 0 {
		t.Errorf("%d locks were left in sessions that are not the migrators'", n)
	}
}

func TestPoolersThatWereNotSaid(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ignoring := map[string]string{"ignore_startup_parameters": strings.Join(store.SessionParameters(store.NoPooler), ", ")}
	for name, test := range map[string]struct {
		said     store.Pooler
		settings map[string]string
		want     string
	}{
		"it refuses parameters": {"", nil, "takes no session settings"},
		"it ignores parameters": {"", ignoring, "takes no session settings"},
		"it does not prepare": {
			store.PreparingPooler, map[string]string{}, "does not keep prepared statements apart",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := maps.Clone(test.settings)
			if test.said == store.PreparingPooler && pgtest.PoolerPrepares(t) {
				settings["max_prepared_statements"] = "0"
			}
			through := pgtest.Pooler(t, d.url, pgtest.PoolerOptions{Settings: settings})
			opened := openStore(t, through, store.Options{Pooler: test.said})
			for range 3 {
				err := opened.Ping(t.Context())
				fault, text := store.Diagnose(err)
				if fault != store.FaultUnavailable || !strings.Contains(text, test.want) || !store.IsUnavailable(err) {
					t.Errorf("fault %d %q of %v", fault, text, err)
				}
			}
		})
	}
}

func TestPooledStoresSetNothingAtTheStart(t *testing.T) {
	t.Parallel()
	for _, pooler := range []store.Pooler{store.TransactionPooler, store.PreparingPooler} {
		if got := store.SessionParameters(pooler); !slices.Equal(got, []string{"application_name"}) {
			t.Errorf("%s: %v", pooler, got)
		}
	}
}

func TestPooledStoresDoNotListen(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	p := d.pooled(t, store.TransactionPooler, store.Options{})
	err := p.ListenReady(t.Context(), func([]string) { t.Error("it listens") })
	if !errors.Is(err, store.ErrNotListening) {
		t.Errorf("listening ends with %v", err)
	}
	// Whoever can listen hears of what is sent through the pooler.
	l := d.listen(t)
	if err := p.NotifyReady(t.Context(), []string{orders}); err != nil {
		t.Fatal(err)
	}
	if got := l.next(t); !slices.Equal(got, []string{orders}) {
		t.Errorf("heard %v", got)
	}
}
