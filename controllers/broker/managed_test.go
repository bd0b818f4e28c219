package broker_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

// startManaged does the work of a managed database's pod: a server with the user, password and database of the Secret,
// to be found under the Secret's host.
func (f *fixture) startManaged(key client.ObjectKey) *corev1.Secret {
	f.t.Helper()

	var secret corev1.Secret
	f.read(key.Name+"-postgres", &secret)

	server := postgres(f.t)
	sql(f.t, server.URL("postgres"), "CREATE ROLE "+string(secret.Data["username"])+
		" LOGIN PASSWORD '"+string(secret.Data["password"])+"'")
	sql(f.t, server.URL("postgres"), "CREATE DATABASE "+string(secret.Data["database"])+
		" OWNER "+string(secret.Data["username"]))
	f.routes.Store(string(secret.Data["host"])+":"+string(secret.Data["port"]), parse(f.t, server.URL("postgres")).Host)

	return &secret
}

func TestManagedDatabaseFromNothingToServing(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	key := f.broker("orders", managed())

	found := f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
	f.condition(found, v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	f.condition(found, v1alpha1.ConditionDatabaseReady, metav1.ConditionFalse, v1alpha1.ReasonProvisioning)
	f.condition(found, v1alpha1.ConditionSchemaReady, metav1.ConditionUnknown, v1alpha1.ReasonPending)

	if f.exists("orders-api", &appsv1.Deployment{}) {
		t.Error("the queue API is started before there is a schema")
	}

	secret := f.startManaged(key)
	found = f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	f.condition(found, v1alpha1.ConditionDatabaseReady, metav1.ConditionTrue, v1alpha1.ReasonConnected)
	f.condition(found, v1alpha1.ConditionSchemaReady, metav1.ConditionTrue, v1alpha1.ReasonMigrated)
	f.condition(found, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonMinimumReplicasUnavailable)

	f.rollOut("orders-api")
	found = f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)
	f.condition(found, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)

	one := int32(1)
	want := v1alpha1.BrokerStatus{
		ObservedGeneration: 1,
		Endpoint:           "http://orders-api." + f.namespace + ".svc",
		SchemaVersion:      int32(store.LatestSchemaVersion()),
		API:                v1alpha1.BrokerAPIStatus{Replicas: &one, ReadyReplicas: &one},
		Selector: "app.kubernetes.io/component=api,app.kubernetes.io/instance=orders," +
			"app.kubernetes.io/name=deadletter",
		Database:   v1alpha1.BrokerDatabaseStatus{SecretName: "orders-postgres"},
		Conditions: found.Status.Conditions,
	}
	if diff := cmp.Diff(want, found.Status); diff != "" {
		t.Error(diff)
	}

	wantEvents := []string{"Normal Accepted", "Normal Migrated", "Normal Connected"}
	wantEvents = append(wantEvents, "Normal MinimumReplicasAvailable", "Normal Ready")

	got := f.events()
	if diff := cmp.Diff(wantEvents, got, cmp.Transformer("sort", sorted)); diff != "" {
		t.Error(diff)
	}

	if password := string(secret.Data["password"]); strings.Contains(mustJSON(t, found), password) ||
		strings.Contains(mustJSON(t, f.deployment("orders-api")), password) {
		t.Error("the password is in the open")
	}
}

func TestManagedCredentialsAreGeneratedOnce(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	key := f.broker("orders", managed())
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)

	var first, second corev1.Secret
	f.read("orders-postgres", &first)
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
	f.read("orders-postgres", &second)

	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}

	password := string(first.Data["password"])
	host := "orders-postgres." + f.namespace + ".svc"
	want := map[string]string{
		"username": "deadletter", "password": password, "database": "deadletter", "host": host, "port": "5432",
		"uri": "postgresql://deadletter:" + password + "@" + host + ":5432/deadletter?sslmode=disable",
	}

	got := make(map[string]string)
	for name, value := range first.Data {
		got[name] = string(value)
	}

	if diff := cmp.Diff(want, got); diff != "" || len(password) < 20 {
		t.Errorf("a password of %d characters\n%s", len(password), diff)
	}
}

func TestLostCredentialsAreNotReplaced(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	key := f.broker("orders", managed())
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)

	var kept corev1.Secret
	f.read("orders-postgres", &kept)
	f.delete("orders-postgres", &corev1.Secret{})

	found := f.step(key, kstatus.FailedStatus, v1alpha1.ReasonSecretNotFound)
	f.condition(found, v1alpha1.ConditionDatabaseReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound)

	if f.exists("orders-postgres", &corev1.Secret{}) {
		t.Fatal("the Secret of an existing database was generated anew")
	}

	kept.ResourceVersion, kept.UID = "", ""
	f.create(&kept)
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
}

func TestLostCredentialsOfAKeptVolumeAreNotReplaced(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "data-orders-postgres-0"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: quantities(corev1.ResourceStorage, "1Gi")},
		},
	})

	key := f.broker("orders", managed())
	f.step(key, kstatus.FailedStatus, v1alpha1.ReasonSecretNotFound)

	if f.exists("orders-postgres", &corev1.Secret{}) || f.exists("orders-postgres", &appsv1.StatefulSet{}) {
		t.Error("a database is started over a volume whose password is lost")
	}
}

func TestManagedDatabaseTakesCredentialsThatAreThere(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("orders-postgres", "postgresql://app:word@orders-postgres/app")
	key := f.broker("orders", managed())
	f.step(key, kstatus.FailedStatus, v1alpha1.ReasonSecretInvalid)

	edit(f, "orders-postgres", &corev1.Secret{}, func(secret *corev1.Secret) {
		secret.Data["username"] = []byte("app")
		secret.Data["password"] = []byte("word")
		secret.Data["database"] = []byte("app")
	})

	var before, after corev1.Secret
	f.read("orders-postgres", &before)
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
	f.read("orders-postgres", &after)

	if diff := cmp.Diff(before, after); diff != "" {
		t.Error("the user's Secret was changed:\n", diff)
	}
}

func TestManagedDatabaseFollowsTheDeletionPolicy(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	key := f.broker("orders", managed())

	for _, policy := range []v1alpha1.BrokerDeletionPolicy{
		v1alpha1.BrokerDeletionRetain, v1alpha1.BrokerDeletionDelete, v1alpha1.BrokerDeletionRetain,
	} {
		edit(f, "orders", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) { broker.Spec.DeletionPolicy = policy })
		found := f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)

		var secret corev1.Secret
		f.read("orders-postgres", &secret)

		if owned := metav1.IsControlledBy(&secret, found); owned != (policy == v1alpha1.BrokerDeletionDelete) {
			t.Errorf("%s: Secret owned: %t", policy, owned)
		}

		var set appsv1.StatefulSet
		f.read("orders-postgres", &set)

		want := appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.PersistentVolumeClaimRetentionPolicyType(policy),
			WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		}
		if diff := cmp.Diff(&want, set.Spec.PersistentVolumeClaimRetentionPolicy); diff != "" {
			t.Error(diff)
		}

		if len(found.Finalizers) != 0 {
			t.Errorf("%s: finalizers %q", policy, found.Finalizers)
		}
	}
}

func TestANewBrokerTakesUpWhatTheLastOneKept(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	key := f.broker("orders", managed())
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)

	var before, after corev1.Secret
	f.read("orders-postgres", &before)

	f.delete("orders", &v1alpha1.Broker{})

	if _, err := f.reconcile(key); err != nil {
		t.Fatal(err)
	}

	f.broker("orders", managed())

	// The garbage collector has not come by yet.
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
	f.delete("orders-postgres", &corev1.Service{})
	f.delete("orders-postgres", &appsv1.StatefulSet{})
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
	f.read("orders-postgres", &after)

	if diff := cmp.Diff(before.Data, after.Data); diff != "" {
		t.Error("the password of the kept volume is lost")
	}
}
