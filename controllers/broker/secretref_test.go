package broker_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func mustJSON(t *testing.T, object any) string {
	t.Helper()

	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

func quantities(name corev1.ResourceName, amount string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(amount)}
}

func TestSecretOnItsWay(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	key := f.broker("orders", fromSecret("pg-app"))

	found := f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonSecretNotFound)
	f.condition(found, v1alpha1.ConditionDatabaseReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)
	f.condition(found, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonMinimumReplicasUnavailable)

	f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pg-app"}})
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonSecretNotFound)

	f.secret("pg-app", "correct horse battery staple")
	found = f.step(key, kstatus.FailedStatus, v1alpha1.ReasonSecretInvalid)

	if strings.Contains(mustJSON(t, found), "horse") {
		t.Error("the Secret's value is in status")
	}

	f.secret("pg-app", address)
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	f.rollOut("orders-api")
	found = f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)
	f.condition(found, v1alpha1.ConditionDatabaseReady, metav1.ConditionTrue, v1alpha1.ReasonConnected)

	if got := found.Status.Database.SecretName; got != "pg-app" {
		t.Errorf("secretName %q", got)
	}

	if f.exists("orders-postgres", &appsv1.StatefulSet{}) {
		t.Error("a database is run beside the existing one")
	}
}

func TestRejectedCredentials(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", withUser(t, address, "postgres", "wrong-word"))

	key := f.broker("orders", fromSecret("pg-app"))
	found := f.stepRetry(key, v1alpha1.ReasonCredentialsRejected)
	f.condition(found, v1alpha1.ConditionDatabaseReady, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRejected)

	if text := mustJSON(t, found.Status); strings.Contains(text, "wrong-word") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("status tells too much: %s", text)
	}

	if f.exists("orders-api", &appsv1.Deployment{}) {
		t.Error("the queue API is started without a database")
	}

	f.secret("pg-app", address)
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
}

func TestRotationRollsTheAPIAndReconnects(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	server := postgres(t)
	address := server.URL("postgres")
	sql(t, address, "CREATE ROLE app LOGIN PASSWORD 'first'")
	sql(t, address, "GRANT CREATE ON DATABASE postgres TO app")
	f.secret("pg-app", withUser(t, address, "app", "first"))

	key := f.serving("orders", fromSecret("pg-app"))
	before := f.deployment("orders-api")
	first, err := f.registry.Get(key)
	if err != nil {
		t.Fatal(err)
	}

	sql(t, address, "ALTER ROLE app PASSWORD 'second'")
	f.secret("pg-app", withUser(t, address, "app", "second"))
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)

	after := f.deployment("orders-api")
	if diff := cmp.Diff(before.Spec.Template.Annotations, after.Spec.Template.Annotations); diff == "" {
		t.Error("the pods stay as they are")
	}

	if after.Generation == before.Generation {
		t.Error("the Deployment is not rolled out")
	}

	second, err := f.registry.Get(key)
	if err != nil || second == first {
		t.Fatalf("the operator's pool stays as it is, or %v", err)
	}

	if err := second.Ping(t.Context()); err != nil {
		t.Error(err)
	}

	f.rollOut("orders-api")
	f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)
}

func TestRotationToWhatDoesNotWorkLeavesTheAPIAlone(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)

	key := f.serving("orders", fromSecret("pg-app"))
	before := f.deployment("orders-api")

	f.secret("pg-app", withUser(t, address, "postgres", "wrong"))
	found := f.stepRetry(key, v1alpha1.ReasonCredentialsRejected)
	f.condition(found, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)

	if diff := cmp.Diff(before, f.deployment("orders-api")); diff != "" {
		t.Error(diff)
	}
}

func TestSchemaOfANewerRelease(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)

	key := f.serving("orders", fromSecret("pg-app"))
	sql(t, address, "INSERT INTO deadletter.schema_migration (version, name, checksum) VALUES (9999, 'later', 'x')")

	found := f.step(key, kstatus.FailedStatus, v1alpha1.ReasonSchemaTooNew)
	f.condition(found, v1alpha1.ConditionDatabaseReady, metav1.ConditionTrue, v1alpha1.ReasonConnected)
	f.condition(found, v1alpha1.ConditionSchemaReady, metav1.ConditionFalse, v1alpha1.ReasonSchemaTooNew)
	f.condition(found, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)

	if _, err := f.registry.Get(key); err == nil {
		t.Error("the other reconcilers may go on working on the schema")
	}

	sql(t, address, "DELETE FROM deadletter.schema_migration WHERE version = 9999")
	f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)
}

func TestSchemaWithAnotherHistory(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)

	key := f.serving("orders", fromSecret("pg-app"))
	sql(t, address, "UPDATE deadletter.schema_migration SET checksum = 'x' WHERE version = 1")
	sql(t, address, "DELETE FROM deadletter.schema_migration WHERE version > 1")

	found := f.step(key, kstatus.FailedStatus, v1alpha1.ReasonMigrationFailed)
	f.condition(found, v1alpha1.ConditionSchemaReady, metav1.ConditionFalse, v1alpha1.ReasonMigrationFailed)
}

func TestMissingPrivilege(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	server := postgres(t)
	address := server.URL("postgres")
	sql(t, address, "CREATE ROLE app LOGIN PASSWORD 'word'")
	f.secret("pg-app", withUser(t, address, "app", "word"))

	key := f.broker("orders", fromSecret("pg-app"))
	found := f.step(key, kstatus.FailedStatus, v1alpha1.ReasonDatabaseUnsupported)
	f.condition(found, v1alpha1.ConditionSchemaReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnsupported)

	sql(t, address, "GRANT CREATE ON DATABASE postgres TO app")
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
}

func TestDatabaseDownAndBack(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	server := postgres(t)
	f.secret("pg-app", server.URL("postgres"))

	key := f.serving("orders", fromSecret("pg-app"))
	f.events()

	if err := server.Kill9(); err != nil {
		t.Fatal(err)
	}

	found := f.stepRetry(key, v1alpha1.ReasonDatabaseUnreachable)
	f.condition(found, v1alpha1.ConditionDatabaseReady, metav1.ConditionFalse, v1alpha1.ReasonDatabaseUnreachable)
	f.condition(found, v1alpha1.ConditionSchemaReady, metav1.ConditionTrue, v1alpha1.ReasonMigrated)
	f.condition(found, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)

	if got := found.Status.SchemaVersion; got != int32(store.LatestSchemaVersion()) {
		t.Errorf("schemaVersion %d", got)
	}

	if diff := cmp.Diff([]string{"Warning DatabaseUnreachable"}, f.events()); diff != "" {
		t.Error(diff)
	}

	// The first failure may be a connection that broke, the later ones are all alike.
	version := f.stepRetry(key, v1alpha1.ReasonDatabaseUnreachable).ResourceVersion
	if found = f.stepRetry(key, v1alpha1.ReasonDatabaseUnreachable); found.ResourceVersion != version {
		t.Error("an unchanged state was written again")
	}

	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)

	want := []string{"Normal Connected", "Normal Ready"}
	if diff := cmp.Diff(want, f.events(), cmp.Transformer("sort", sorted)); diff != "" {
		t.Error(diff)
	}
}

func TestUpgradeMigratesBeforeTheAPIRolls(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)
	key := f.broker("orders", fromSecret("pg-app"))
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	f.events()

	// An earlier release's schema is one that lacks the last migrations: here, all of them.
	sql(t, address, "DROP SCHEMA deadletter CASCADE")
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)

	if !hasSchema(t, address) {
		t.Error("the schema was not migrated")
	}

	if got := f.events(); !slices.Contains(got, "Normal Migrated") {
		t.Errorf("events %q", got)
	}
}
