package broker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status/statustest"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

func deleting(spec v1alpha1.BrokerSpec) v1alpha1.BrokerSpec {
	spec.DeletionPolicy = v1alpha1.BrokerDeletionDelete

	return spec
}

// finish runs the pass of a deleted Broker that must let it go.
func (f *fixture) finish(key client.ObjectKey) {
	f.t.Helper()

	if _, err := f.reconcile(key); err != nil {
		f.t.Fatal(err)
	}

	if f.exists(key.Name, &v1alpha1.Broker{}) {
		f.t.Fatalf("the Broker is still there: %+v", f.get(key).Status.Conditions)
	}

	// What follows the deletion.
	if _, err := f.reconcile(key); err != nil {
		f.t.Fatal(err)
	}

	if _, err := f.registry.Get(key); err == nil {
		f.t.Error("the pool is still there")
	}
}

// waits runs the pass of a deleted Broker that must not let it go yet.
func (f *fixture) waits(key client.ObjectKey) {
	f.t.Helper()

	result, err := f.reconcile(key)
	if err != nil || result.RequeueAfter <= 0 {
		f.t.Fatalf("result %+v, error %v", result, err)
	}

	found := f.get(key)
	if err := statustest.Check(found, kstatus.TerminatingStatus); err != nil {
		f.t.Error(err)
	}

	f.condition(found, v1alpha1.ConditionReady, "False", v1alpha1.ReasonDeleting)
}

func (f *fixture) wantEvent(want string) {
	f.t.Helper()

	if got := f.events(); !slices.Contains(got, want) {
		f.t.Errorf("events %q, want %q", got, want)
	}
}

func TestRetainLeavesTheDatabaseAlone(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	server := postgres(t)
	f.secret("pg-app", server.URL("postgres"))

	key := f.serving("orders", fromSecret("pg-app"))
	if got := f.get(key).Finalizers; len(got) != 0 {
		t.Errorf("finalizers %q", got)
	}

	// Not even a database that is away holds it up.
	if err := server.Kill9(); err != nil {
		t.Fatal(err)
	}

	f.delete("orders", &v1alpha1.Broker{})
	f.finish(key)

	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}

	if !hasSchema(t, server.URL("postgres")) {
		t.Error("the schema is gone")
	}
}

func TestDeleteDropsTheSchema(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)
	key := f.serving("orders", deleting(fromSecret("pg-app")))

	f.delete("orders", &v1alpha1.Broker{})
	f.finish(key)

	if hasSchema(t, address) {
		t.Error("the schema is still there")
	}

	if f.exists("orders-api", &appsv1.Deployment{}) {
		t.Error("the queue API still runs")
	}

	f.wantEvent("Normal SchemaDropped")
}

func TestDeleteWithoutTheSecretIsBounded(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)
	key := f.serving("orders", deleting(fromSecret("pg-app")))

	f.delete("pg-app", &corev1.Secret{})
	f.delete("orders", &v1alpha1.Broker{})
	f.waits(key)
	f.clock.SetTime(f.get(key).DeletionTimestamp.Add(5*time.Minute - time.Second))
	f.waits(key)
	f.clock.SetTime(f.get(key).DeletionTimestamp.Add(5 * time.Minute))
	f.finish(key)
	f.wantEvent("Warning SchemaKept")

	if !hasSchema(t, address) {
		t.Error("the schema is gone")
	}
}

func TestDeleteWithTheSecretBackDrops(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)
	key := f.serving("orders", deleting(fromSecret("pg-app")))

	f.delete("pg-app", &corev1.Secret{})
	f.delete("orders", &v1alpha1.Broker{})
	f.waits(key)
	f.secret("pg-app", address)
	f.finish(key)

	if hasSchema(t, address) {
		t.Error("the schema is still there")
	}
}

func TestDeleteWithoutTheDatabaseIsBounded(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	server := postgres(t)
	f.secret("pg-app", server.URL("postgres"))
	key := f.serving("orders", deleting(fromSecret("pg-app")))

	if err := server.Kill9(); err != nil {
		t.Fatal(err)
	}

	f.delete("orders", &v1alpha1.Broker{})
	f.waits(key)
	f.clock.SetTime(f.get(key).DeletionTimestamp.Add(5 * time.Minute))
	f.finish(key)
	f.wantEvent("Warning SchemaKept")
}

func TestDeletedNamespaceDoesNotHangOnTheSecret(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("pg-app", pgtest.Database(t))
	key := f.serving("orders", deleting(fromSecret("pg-app")))

	var namespace corev1.Namespace
	if err := f.client.Get(t.Context(), client.ObjectKey{Name: f.namespace}, &namespace); err != nil {
		t.Fatal(err)
	}

	if err := f.client.Delete(t.Context(), &namespace); err != nil {
		t.Fatal(err)
	}

	f.delete("pg-app", &corev1.Secret{})
	f.delete("orders", &v1alpha1.Broker{})
	f.finish(key)
	f.wantEvent("Warning SchemaKept")
}

func TestRetainEndsAWaitingDeletion(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("pg-app", pgtest.Database(t))
	key := f.serving("orders", deleting(fromSecret("pg-app")))

	f.delete("pg-app", &corev1.Secret{})
	f.delete("orders", &v1alpha1.Broker{})
	f.waits(key)
	edit(f, "orders", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) {
		broker.Spec.DeletionPolicy = v1alpha1.BrokerDeletionRetain
	})
	f.finish(key)
}

func TestDeleteKeepsWhatIsNotOurs(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)
	key := f.serving("orders", deleting(fromSecret("pg-app")))

	sql(t, address, "CREATE TABLE deadletter.invoices (id int)")
	f.delete("orders", &v1alpha1.Broker{})
	f.finish(key)
	f.wantEvent("Warning SchemaKept")

	if !hasSchema(t, address) {
		t.Error("the schema is gone")
	}
}

func TestDeleteOfABrokerThatNeverHadTheSchema(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)
	f.serving("first", fromSecret("pg-app"))

	second := f.broker("second", deleting(fromSecret("pg-app")))
	f.step(second, kstatus.FailedStatus, v1alpha1.ReasonConflict)
	f.delete("second", &v1alpha1.Broker{})
	f.finish(second)

	if !hasSchema(t, address) {
		t.Error("the schema of another Broker is gone")
	}
}

func TestDeleteOfABrokerThatNeverGotThere(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	key := f.broker("orders", deleting(fromSecret("pg-app")))
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonSecretNotFound)

	// What an earlier Broker kept is not this one's to drop.
	if _, err := store.Migrate(t.Context(), store.MigrateOptions{DatabaseURL: address, Schema: "deadletter"}); err != nil {
		t.Fatal(err)
	}

	f.secret("pg-app", address)
	f.delete("orders", &v1alpha1.Broker{})
	f.finish(key)

	if !hasSchema(t, address) {
		t.Error("the schema is gone")
	}
}

func TestFinalizerFollowsThePolicy(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("pg-app", pgtest.Database(t))
	key := f.serving("orders", fromSecret("pg-app"))

	for _, test := range []struct {
		policy v1alpha1.BrokerDeletionPolicy
		want   []string
	}{
		{v1alpha1.BrokerDeletionDelete, []string{v1alpha1.Finalizer}},
		{v1alpha1.BrokerDeletionRetain, nil},
	} {
		edit(f, "orders", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) { broker.Spec.DeletionPolicy = test.policy })

		found := f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)
		if diff := cmp.Diff(test.want, found.Finalizers); diff != "" {
			t.Errorf("%s: %s", test.policy, diff)
		}
	}
}
