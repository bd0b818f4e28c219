package broker_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/pgtest"
)

func newServing(t *testing.T) (*fixture, client.ObjectKey) {
	t.Helper()

	f := newFixture(t)
	f.secret("pg-app", pgtest.Database(t))

	return f, f.serving("orders", fromSecret("pg-app"))
}

// versions returns the resourceVersion of everything in the fixture's namespace.
func (f *fixture) versions() map[string]string {
	f.t.Helper()

	all := make(map[string]string)

	for _, list := range []client.ObjectList{
		&v1alpha1.BrokerList{}, &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.ServiceList{},
		&corev1.ServiceAccountList{}, &corev1.SecretList{}, &policyv1.PodDisruptionBudgetList{},
	} {
		if err := f.client.List(f.t.Context(), list, client.InNamespace(f.namespace)); err != nil {
			f.t.Fatal(err)
		}

		maps.Copy(all, versionsOf(f.t, list))
	}

	return all
}

func TestReconcilingTwiceWritesNothing(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	address := pgtest.Database(t)
	f.secret("pg-app", address)

	// In this order: the first migrates the schema whose rows are compared.
	for _, broker := range []struct {
		name string
		spec v1alpha1.BrokerSpec
	}{{"orders", fromSecret("pg-app")}, {"own", managed()}} {
		name, spec := broker.name, broker.spec
		spec.API.Replicas = ptr.To[int32](3)
		key := f.broker(name, spec)

		if spec.Database.Managed != nil {
			f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProvisioning)
			f.startManaged(key)
		}

		f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
		f.rollOut(name + "-api")
		f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)

		rows := "SELECT string_agg(xmin::text || version, ',' ORDER BY version) FROM deadletter.schema_migration"
		stored := query(t, address, rows)
		versions, writes := f.versions(), f.writes.Load()

		if len(versions) < 6 {
			t.Fatalf("only %d objects: %v", len(versions), versions)
		}

		f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)
		f.restart()
		f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)

		if diff := cmp.Diff(versions, f.versions()); diff != "" {
			t.Error(diff)
		}

		if got := f.writes.Load() - writes; got != 0 {
			t.Errorf("%d requests to write", got)
		}

		if diff := cmp.Diff(stored, query(t, address, rows)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()

	f, key := newServing(t)

	edit(f, "orders-api", &appsv1.Deployment{}, func(deployment *appsv1.Deployment) {
		deployment.Spec.Replicas = ptr.To[int32](7)
		deployment.Spec.Template.Spec.Containers[0].Args = []string{"operator"}
		deployment.Annotations["example.com/note"] = "kept"
	})
	edit(f, "orders-api", &corev1.Service{}, func(service *corev1.Service) {
		service.Spec.Ports[0].Port = 81
		delete(service.Labels, "app.kubernetes.io/managed-by")
	})
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)

	deployment := f.deployment("orders-api")
	if *deployment.Spec.Replicas != 1 || deployment.Spec.Template.Spec.Containers[0].Args[0] != "api" {
		t.Errorf("the Deployment is still %+v", deployment.Spec)
	}

	if deployment.Annotations["example.com/note"] != "kept" {
		t.Error("somebody else's annotation is gone")
	}

	var service corev1.Service
	f.read("orders-api", &service)

	if service.Spec.Ports[0].Port != 80 || service.Labels["app.kubernetes.io/managed-by"] == "" {
		t.Errorf("the Service is still %+v", service)
	}

	for _, entry := range service.ManagedFields {
		if entry.Manager == "deadletter-operator" && entry.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("fields are owned by %s, so that no apply removes them", entry.Operation)
		}
	}

	f.delete("orders-api", &corev1.ServiceAccount{})
	f.rollOut("orders-api")
	f.step(key, kstatus.CurrentStatus, v1alpha1.ReasonReady)

	if !f.exists("orders-api", &corev1.ServiceAccount{}) {
		t.Error("the ServiceAccount is still gone")
	}
}

func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.secret("pg-app", pgtest.Database(t))

	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "orders-api"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9999}}},
	}
	f.create(foreign)

	key := f.broker("orders", fromSecret("pg-app"))
	found := f.step(key, kstatus.FailedStatus, v1alpha1.ReasonConflict)
	f.condition(found, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonConflict)

	version := foreign.ResourceVersion
	if f.read("orders-api", foreign); foreign.ResourceVersion != version {
		t.Error("somebody else's Service was written")
	}

	f.delete("orders-api", &corev1.Service{})
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)
}

func TestDisruptionBudgetFollowsTheReplicas(t *testing.T) {
	t.Parallel()

	f, key := newServing(t)

	for _, test := range []struct {
		replicas int32
		budget   bool
		reason   string
	}{
		{1, false, v1alpha1.ReasonReady},
		{3, true, v1alpha1.ReasonReady},
		{0, false, v1alpha1.ReasonScaledToZero},
		{2, true, v1alpha1.ReasonReady},
		{1, false, v1alpha1.ReasonReady},
	} {
		edit(f, "orders", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) { broker.Spec.API.Replicas = &test.replicas })

		if _, err := f.reconcile(key); err != nil {
			t.Fatal(err)
		}

		f.rollOut("orders-api")
		found := f.step(key, kstatus.CurrentStatus, test.reason)

		if got := *found.Status.API.Replicas; got != test.replicas {
			t.Errorf("status.api.replicas %d, want %d", got, test.replicas)
		}

		if got := f.exists("orders-api", &policyv1.PodDisruptionBudget{}); got != test.budget {
			t.Errorf("%d replicas: PodDisruptionBudget %t", test.replicas, got)
		}
	}
}

func TestPodTemplate(t *testing.T) {
	t.Parallel()

	f, key := newServing(t)

	edit(f, "orders", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) {
		broker.Spec.API.Image = "registry.example/other:v2"
		broker.Spec.API.PodTemplate = v1alpha1.PodTemplate{
			Labels:            map[string]string{"team": "shop", "app.kubernetes.io/component": "mine"},
			Annotations:       map[string]string{"example.com/scrape": "true", "deadletter.dev/database": "mine"},
			NodeSelector:      map[string]string{"disk": "fast"},
			Tolerations:       []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
			PriorityClassName: "high",
			ImagePullSecrets:  []corev1.LocalObjectReference{{Name: "pull"}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
			}},
		}
	})
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)

	template := f.deployment("orders-api").Spec.Template
	if diff := cmp.Diff(map[string]string{
		"team": "shop", "app.kubernetes.io/component": "api", "app.kubernetes.io/instance": "orders",
		"app.kubernetes.io/name": "deadletter", "app.kubernetes.io/managed-by": "deadletter-operator",
		"app.kubernetes.io/part-of": "deadletter",
	}, template.Labels); diff != "" {
		t.Error(diff)
	}

	if template.Annotations["example.com/scrape"] != "true" || template.Annotations["deadletter.dev/database"] == "mine" {
		t.Errorf("annotations %v", template.Annotations)
	}

	pod := template.Spec
	constraint := pod.TopologySpreadConstraints[0]

	if pod.Containers[0].Image != "registry.example/other:v2" || pod.NodeSelector["disk"] != "fast" ||
		pod.Tolerations[0].Key != "dedicated" || pod.PriorityClassName != "high" || pod.ImagePullSecrets[0].Name != "pull" ||
		constraint.TopologyKey != "zone" || constraint.LabelSelector.MatchLabels["app.kubernetes.io/instance"] != "orders" {
		t.Errorf("pod %+v", pod)
	}

	edit(f, "orders", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) {
		broker.Spec.API.PodTemplate.Annotations = nil
		broker.Spec.API.PodTemplate.NodeSelector = nil
	})
	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)

	template = f.deployment("orders-api").Spec.Template
	if _, found := template.Annotations["example.com/scrape"]; found || template.Spec.NodeSelector != nil {
		t.Errorf("what was taken out of the spec is still there: %+v", template)
	}
}

func TestPodTemplateThatTheAPIRefuses(t *testing.T) {
	t.Parallel()

	f, key := newServing(t)

	edit(f, "orders", &v1alpha1.Broker{}, func(broker *v1alpha1.Broker) {
		broker.Spec.API.PodTemplate.Labels = map[string]string{"not a label": "x"}
	})

	found := f.step(key, kstatus.FailedStatus, v1alpha1.ReasonInvalid)
	f.condition(found, v1alpha1.ConditionAccepted, metav1.ConditionFalse, v1alpha1.ReasonInvalid)
	f.condition(found, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonMinimumReplicasAvailable)

	version := found.ResourceVersion
	if found = f.step(key, kstatus.FailedStatus, v1alpha1.ReasonInvalid); found.ResourceVersion != version {
		t.Error("an unchanged state was written again")
	}
}

func TestScale(t *testing.T) {
	t.Parallel()

	f, key := newServing(t)

	edit(f, "orders-api", &appsv1.Deployment{}, func(*appsv1.Deployment) {})

	broker := f.get(key)
	scale := newScale(5)

	if err := f.client.SubResource("scale").Update(t.Context(), broker, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}

	f.step(key, kstatus.InProgressStatus, v1alpha1.ReasonProgressing)

	if got := *f.deployment("orders-api").Spec.Replicas; got != 5 {
		t.Errorf("%d replicas", got)
	}

	if err := f.client.SubResource("scale").Get(t.Context(), broker, scale); err != nil {
		t.Fatal(err)
	}

	selector, err := metav1.LabelSelectorAsSelector(f.deployment("orders-api").Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}

	if scale.Status.Replicas != 1 || scale.Status.Selector != selector.String() {
		t.Errorf("scale %+v", scale.Status)
	}
}
