package replay_test

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/replay"
	"deadletter.dev/deadletter/internal/store"
)

const digest = "sha256:00000000000000000000000000000000000000000000000000000000000000af"

// worker is a Deployment with two of two replicas of an image rolled out.
func worker(image string) *appsv1.Deployment {
	labels := map[string]string{"app": "worker"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "worker", Generation: 3},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "proxy", Image: "proxy"}, {Name: "worker", Image: image},
				}},
			},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
		},
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gate   v1alpha1.ReplayGate
		image  string
		change func(*appsv1.Deployment)
		closed string
	}{
		"rolled out":             {},
		"by its digest":          {gate: v1alpha1.ReplayGate{ImageDigest: digest}, image: "shop/worker@" + digest},
		"by tag with a digest":   {image: "shop/worker:v2@" + digest},
		"a registry with a port": {image: "registry.example:5000/shop/worker:v2"},
		"a port for a tag":       {gate: v1alpha1.ReplayGate{ImageTag: "v2"}, image: "registry.example:v2/worker", closed: `no container with the image tag "v2"`},
		"another tag":            {image: "shop/worker:v1", closed: `no container with the image tag "v2"`},
		"a tag that goes on":     {image: "shop/worker:v2.1", closed: "no container"},
		"no tag":                 {image: "shop/worker", closed: "no container"},
		"another digest":         {gate: v1alpha1.ReplayGate{ImageDigest: digest}, image: "shop/worker:v2", closed: "that image digest"},
		"not observed":           {change: func(d *appsv1.Deployment) { d.Generation = 4 }, closed: "has not begun"},
		"not updated":            {change: func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }, closed: "1 of 2 replicas are updated"},
		"old ones left":          {change: func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, closed: "1 old replicas are left"},
		"not available":          {change: func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }, closed: "0 of 2 replicas are available"},
		"scaled to zero": {change: func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status = new(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 3}
		}},
		"one replica by default": {change: func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.UpdatedReplicas = nil, 0 }, closed: "0 of 1 replicas are updated"},
		"being deleted":          {change: func(d *appsv1.Deployment) { d.DeletionTimestamp = new(metav1.Now()) }, closed: "is being deleted"},
		"given up": {change: func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse},
			}
		}, closed: "has given up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image, gate := "shop/worker:v2", v1alpha1.ReplayGate{ImageTag: "v2"}
			if test.image != "" {
				image = test.image
			}
			if test.gate.ImageDigest != "" {
				gate = test.gate
			}
			deployment := worker(image)
			if test.change != nil {
				test.change(deployment)
			}
			got := replay.Closed(&gate, deployment)
			if !strings.Contains(got, test.closed) || (got == "") != (test.closed == "") {
				t.Fatalf("got %q", got)
			}
		})
	}
}

func gated(r *v1alpha1.Replay) {
	r.Spec.Gate = v1alpha1.ReplayGate{DeploymentRef: v1alpha1.DeploymentReference{Name: "worker"}, ImageTag: "v2"}
}

func TestRunStartsWhenItsGateOpens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	object := f.create(gated)
	f.awaitHeld(object, v1alpha1.ReasonWaitingForGate)
	f.says(object, `the Deployment "worker" does not exist`)
	deployment := worker("shop/worker:v1")
	deployment.Namespace = f.Namespace
	rolledOut := deployment.Status
	if err := f.Client.Create(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	f.rollOut(deployment, rolledOut)
	f.says(object, `no container with the image tag "v2"`)
	deployment.Spec.Template.Spec.Containers[1].Image = "shop/worker:v2"
	if err := f.Client.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	f.says(object, "its rollout has not begun")
	if _, err := f.Store.GetRun(t.Context(), f.key("1"), store.RunExecute); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("the run has started: %v", err)
	}
	f.depth(0, 10)
	f.rollOut(deployment, rolledOut)
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(10, 0)

	// What was done is not held back, nor done again.
	f.remove(object)
	if err := f.Client.Delete(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	f.awaitSucceeded(f.create(gated), v1alpha1.ReasonAlreadyExecuted)
}

// rollOut does what the controller of Deployments would.
func (f *fixture) rollOut(deployment *appsv1.Deployment, to appsv1.DeploymentStatus) {
	f.t.Helper()
	deployment.Status = to
	deployment.Status.ObservedGeneration = deployment.Generation
	if err := f.Client.Status().Update(f.t.Context(), deployment); err != nil {
		f.t.Fatal(err)
	}
}

func TestGateMayBeTakenAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	object := f.create(gated)
	f.awaitHeld(object, v1alpha1.ReasonWaitingForGate)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Gate = v1alpha1.ReplayGate{} })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.depth(10, 0)
}

func TestPreviewWaitsForNoGate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	object := f.create(func(r *v1alpha1.Replay) {
		gated(r)
		r.Spec.Mode = v1alpha1.ReplayPreview
	})
	f.awaitSucceeded(object, v1alpha1.ReasonPreviewReady)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Mode = v1alpha1.ReplayExecute })
	f.awaitHeld(object, v1alpha1.ReasonWaitingForGate)
	f.depth(0, 10)
	f.remove(object)
}
