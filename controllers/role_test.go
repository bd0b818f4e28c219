package controllers_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	. "github.com/onsi/gomega" //nolint:revive // gomega reads as prose
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers"
	"deadletter.dev/deadletter/internal/pgtest"
)

const roleFile = "../config/rbac/role.yaml"

// TestTheRoleIsEnough runs the operator with the rights of the generated role and nothing else.
func TestTheRoleIsEnough(t *testing.T) {
	t.Parallel()

	o := start(t, func(config *controllers.Config) {
		user := "operator-of-" + config.OperatorNamespace
		become(t, config, user)
		bind(t, config.Kubernetes, user, "")
	})

	o.secret("pg-app", pgtest.Database(t))
	o.broker("orders", "pg-app")
	o.create(&v1alpha1.Broker{
		ObjectMeta: metav1.ObjectMeta{Name: "own"},
		Spec:       v1alpha1.BrokerSpec{Database: v1alpha1.BrokerDatabase{Managed: &v1alpha1.ManagedDatabase{}}},
	})
	o.eventuallyReason("own", v1alpha1.ConditionReady, v1alpha1.ReasonProvisioning)
	o.eventuallyReason("orders", v1alpha1.ConditionSchemaReady, v1alpha1.ReasonMigrated)
	o.rollOut("orders-api")
	o.eventuallyReason("orders", v1alpha1.ConditionReady, v1alpha1.ReasonReady)

	exists := func(name string, object client.Object) func() bool {
		return func() bool { return o.client.Get(t.Context(), o.key(name), object) == nil }
	}
	change := func(name string, change func(*v1alpha1.Broker)) {
		o.Eventually(func(g Gomega) {
			var broker v1alpha1.Broker
			g.Expect(o.client.Get(t.Context(), o.key(name), &broker)).To(Succeed())
			change(&broker)
			g.Expect(o.client.Update(t.Context(), &broker)).To(Succeed())
		}, patience, interval).Should(Succeed())
	}

	o.Eventually(exists("own-postgres", &appsv1.StatefulSet{}), patience, interval).Should(BeTrue())

	// The rights to remove, to own a Secret, and to drop.
	change("orders", func(broker *v1alpha1.Broker) {
		broker.Spec.API.Replicas = ptr.To[int32](2)
		broker.Spec.DeletionPolicy = v1alpha1.BrokerDeletionDelete
	})
	o.Eventually(exists("orders-api", &policyv1.PodDisruptionBudget{}), patience, interval).Should(BeTrue())
	change("orders", func(broker *v1alpha1.Broker) { broker.Spec.API.Replicas = ptr.To[int32](1) })
	o.Eventually(exists("orders-api", &policyv1.PodDisruptionBudget{}), patience, interval).Should(BeFalse())

	change("own", func(broker *v1alpha1.Broker) { broker.Spec.DeletionPolicy = v1alpha1.BrokerDeletionDelete })
	o.Eventually(func(g Gomega) {
		var secret corev1.Secret
		g.Expect(o.client.Get(t.Context(), o.key("own-postgres"), &secret)).To(Succeed())
		g.Expect(secret.OwnerReferences).NotTo(BeEmpty())
	}, patience, interval).Should(Succeed())

	orders := &v1alpha1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: "orders"}}
	o.Expect(o.client.Delete(t.Context(), orders)).To(Succeed())
	o.Eventually(exists("orders", orders), patience, interval).Should(BeFalse())
}

// become lets the operator have no rights but those of a new user, who may keep a lease in the operator's namespace.
func become(t *testing.T, config *controllers.Config, user string) {
	t.Helper()

	role, namespaced := readRole(t)
	role.Name, namespaced.Name, namespaced.Namespace = user, user, config.OperatorNamespace

	create(t, config.Kubernetes, role, namespaced, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: config.OperatorNamespace, Name: user},
		Subjects:   subjects(user), RoleRef: reference("Role", user),
	})

	config.Kubernetes = rest.CopyConfig(config.Kubernetes)
	config.Kubernetes.Impersonate = rest.ImpersonationConfig{UserName: user}
	config.LeaderElect = true
}

// bind gives a user the generated ClusterRole in a namespace, or everywhere.
func bind(t *testing.T, config *rest.Config, user, namespace string) {
	t.Helper()

	if namespace == "" {
		create(t, config, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects(user), RoleRef: reference("ClusterRole", user),
		})

		return
	}

	create(t, config, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user + "-works-here"},
		Subjects:   subjects(user), RoleRef: reference("ClusterRole", user),
	})
}

func subjects(user string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
}

func reference(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// create creates objects as the administrator.
func create(t *testing.T, config *rest.Config, objects ...client.Object) {
	t.Helper()

	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{}

	scheme, err := controllers.NewScheme()
	if err != nil {
		t.Fatal(err)
	}

	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}

	for _, object := range objects {
		if err := admin.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// readRole reads the generated file.
func readRole(t *testing.T) (*rbacv1.ClusterRole, *rbacv1.Role) {
	t.Helper()

	content, err := os.ReadFile(roleFile)
	if err != nil {
		t.Fatal(err)
	}

	var (
		role       rbacv1.ClusterRole
		namespaced rbacv1.Role
		decoder    = yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	)

	for _, into := range []any{&role, &namespaced} {
		if err := decoder.Decode(into); err != nil {
			t.Fatal(err)
		}
	}

	if err := decoder.Decode(&rbacv1.Role{}); !errors.Is(err, io.EOF) {
		t.Fatalf("the file holds more than it used to: %v", err)
	}

	return &role, &namespaced
}
