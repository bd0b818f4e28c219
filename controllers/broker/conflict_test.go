package broker_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/pgtest"
)

// later waits until the API server's clock, which counts seconds, has moved on.
func (f *fixture) later() {
	f.t.Helper()

	for start := time.Now().Unix(); time.Now().Unix() == start; {
		timer := time.NewTimer(50 * time.Millisecond)

		select {
		case <-timer.C:
		case <-f.t.Context().Done():
			f.t.Fatal(f.t.Context().Err())
		}
	}
}

func TestTwoBrokersOverOneSchema(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)
	// The same database by another URL.
	f.secret("pg-other", strings.Replace(address, "sslmode=disable", "sslmode=prefer", 1))

	// By name the later one would come first.
	first := f.serving("zebra", fromSecret("pg-app"))
	f.later()

	second := f.broker("ant", fromSecret("pg-other"))
	found := f.step(second, kstatus.FailedStatus, v1alpha1.ReasonConflict)
	f.condition(found, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonConflict)
	f.step(first, kstatus.CurrentStatus, v1alpha1.ReasonReady)

	// Neither does a restart help the second, even if it comes first then.
	f.restart()
	f.step(second, kstatus.FailedStatus, v1alpha1.ReasonConflict)
	f.step(first, kstatus.CurrentStatus, v1alpha1.ReasonReady)

	f.delete("zebra", &v1alpha1.Broker{})
	f.finish(first)
	f.step(second, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
}

func TestTwoBrokersOverOneDatabaseWithTwoSchemas(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("pg-app", pgtest.Database(t))
	f.serving("first", fromSecret("pg-app"))

	other := fromSecret("pg-app")
	other.Schema = "other"
	f.serving("second", other)
}

func TestBrokerThatMovesAwayFreesItsSchema(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("pg-first", pgtest.Database(t))
	f.secret("pg-second", pgtest.Database(t))

	var (
		first  = f.serving("first", fromSecret("pg-first"))
		second = f.broker("second", fromSecret("pg-first"))
	)

	f.step(second, kstatus.FailedStatus, v1alpha1.ReasonConflict)
	edit(f, "first", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) {
		broker.Spec.Database.SecretRef.Name = "pg-second"
	})
	f.step(first, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	f.step(second, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
}

func TestOlderBrokerWinsWhereverItComesFrom(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("pg-first", pgtest.Database(t))

	address := pgtest.Database(t)
	f.secret("pg-second", address)

	older := f.serving("older", fromSecret("pg-first"))
	f.later()

	younger := f.serving("younger", deleting(fromSecret("pg-second")))

	edit(f, "older", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) {
		broker.Spec.Database.SecretRef.Name = "pg-second"
	})
	f.step(older, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	f.step(younger, kstatus.FailedStatus, v1alpha1.ReasonConflict)

	if _, err := f.registry.Get(younger); err == nil {
		t.Error("the Broker that lost still has a pool")
	}

	// What it lost it does not take along.
	f.delete("younger", &v1alpha1.Broker{})
	f.finish(younger)
	f.wantEvent("Warning SchemaKept")

	if !hasSchema(t, address) {
		t.Error("the schema of the older Broker is gone")
	}
}

func TestConflictDoesNotNameABrokerOfAnotherNamespace(t *testing.T) {
	t.Parallel()

	ours, theirs := newFixture(t), newFixture(t)
	address := pgtest.Database(t)
	ours.secret("pg-app", address)
	theirs.secret("pg-app", address)
	ours.serving("discreet", fromSecret("pg-app"))
	ours.later()

	theirs.reconciler = ours.reconciler
	key := theirs.broker("second", fromSecret("pg-app"))
	found := theirs.step(key, kstatus.FailedStatus, v1alpha1.ReasonConflict)

	if text := mustJSON(t, found.Status); strings.Contains(text, "discreet") || strings.Contains(text, ours.namespace) {
		t.Errorf("status tells of another namespace: %s", text)
	}
}
