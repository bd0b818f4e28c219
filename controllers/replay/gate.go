package replay

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

// gateWait is how often a Deployment that is waited for is read. It is not watched: that would have every Deployment of
// the cluster in memory for the sake of a few.
const gateWait = 10 * time.Second

// gate is done when nothing keeps the run from starting. A Preview moves nothing, and waits for nobody.
func (w *work) gate(ctx context.Context) (status.Outcome, error) {
	gate := &w.object.Spec.Gate
	if gate.DeploymentRef.Name == "" || w.spec.Mode != store.RunExecute {
		return status.Outcome{}, nil
	}
	var deployment appsv1.Deployment
	key := client.ObjectKey{Namespace: w.object.Namespace, Name: gate.DeploymentRef.Name}
	err := w.Live.Get(ctx, key, &deployment)
	why := "does not exist in this namespace"
	switch {
	case err == nil:
		why = closed(gate, &deployment)
	case !apierrors.IsNotFound(err):
		return status.Outcome{}, fmt.Errorf("read Deployment %s: %w", key, err)
	}
	if why == "" {
		return status.Outcome{}, nil
	}
	return hold(w.pass, status.Wait(gateWait, v1alpha1.ReasonWaitingForGate,
		fmt.Sprintf("The run has not started: the Deployment %q %s.", key.Name, why))), nil
}

// closed says why a Deployment keeps a gate closed, or nothing.
func closed(gate *v1alpha1.ReplayGate, deployment *appsv1.Deployment) string {
	if !hasImage(gate, deployment.Spec.Template.Spec.Containers) {
		if gate.ImageTag != "" {
			return fmt.Sprintf("has no container with the image tag %q", gate.ImageTag)
		}
		return "has no container with that image digest"
	}
	want, now := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status
	switch {
	case !deployment.DeletionTimestamp.IsZero():
		return "is being deleted"
	case now.ObservedGeneration < deployment.Generation:
		return "has been changed, and its rollout has not begun"
	case hasGivenUp(now.Conditions):
		return "has given up on its rollout"
	case now.UpdatedReplicas < want:
		return fmt.Sprintf("is being rolled out: %d of %d replicas are updated", now.UpdatedReplicas, want)
	case now.Replicas > now.UpdatedReplicas:
		return fmt.Sprintf("is being rolled out: %d old replicas are left", now.Replicas-now.UpdatedReplicas)
	case now.AvailableReplicas < want:
		return fmt.Sprintf("is being rolled out: %d of %d replicas are available", now.AvailableReplicas, want)
	default:
		return ""
	}
}

func hasGivenUp(conditions []appsv1.DeploymentCondition) bool {
	for i := range conditions {
		if conditions[i].Type == appsv1.DeploymentProgressing && conditions[i].Status == corev1.ConditionFalse {
			return true
		}
	}
	return false
}

// hasImage tells whether one of the containers has the image that the gate asks for.
func hasImage(gate *v1alpha1.ReplayGate, containers []corev1.Container) bool {
	for i := range containers {
		name, digest, _ := strings.Cut(containers[i].Image, "@")
		// A colon before the last slash is that of a port.
		_, tag, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
		if gate.ImageTag != "" && tag == gate.ImageTag || gate.ImageDigest != "" && digest == gate.ImageDigest {
			return true
		}
	}
	return false
}
