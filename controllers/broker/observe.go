package broker

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

const rollingOut = "The Deployment of the queue API is being rolled out."

// observe shows the state of the queue API, which goes on serving whatever the operator is waiting for.
func (r *Reconciler) observe(ctx context.Context, w *work) (status.Outcome, error) {
	var deployment appsv1.Deployment

	err := r.Client.Get(ctx, types.NamespacedName{Namespace: w.broker.Namespace, Name: apiName(w.broker)}, &deployment)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(&deployment, w.broker) {
		w.broker.Status.API = v1alpha1.BrokerAPIStatus{}
		message := fmt.Sprintf("Deployment %q does not exist yet.", apiName(w.broker))
		w.pass.False(v1alpha1.ConditionAvailable, v1alpha1.ReasonMinimumReplicasUnavailable, message)

		return status.Wait(0, v1alpha1.ReasonProgressing, message), nil
	}

	if err != nil {
		return status.Outcome{}, fmt.Errorf("read Deployment %s: %w", apiName(w.broker), err)
	}

	w.broker.Status.API = v1alpha1.BrokerAPIStatus{
		Replicas:      new(deployment.Status.Replicas),
		ReadyReplicas: new(deployment.Status.ReadyReplicas),
	}

	state := judge(&deployment)
	if deployment.Generation < w.generation {
		// The cache is behind what this very pass has written: its word that all is well is about the past.
		state.outcome = status.Wait(0, v1alpha1.ReasonProgressing, rollingOut)
	}

	if !state.outcome.IsDone() {
		why, err := r.hindrance(ctx, w.broker, componentAPI)
		if err != nil {
			return status.Outcome{}, err
		}

		state.add(cmp.Or(replicaFailure(&deployment), why))
	}

	w.pass.Set(v1alpha1.ConditionAvailable, state.available, state.reason, state.message)

	return state.outcome, nil
}

// rollout is what a Deployment's status means to a Broker.
type rollout struct {
	available       metav1.ConditionStatus
	reason, message string
	outcome         status.Outcome
}

// add tells what keeps the pods from working. A rollout that is held up leaves alone what is available.
func (s *rollout) add(why string) {
	if s.available != metav1.ConditionTrue {
		s.message += why
	}

	s.outcome = s.outcome.With(why).Again(hindrancePoll)
}

// judge reads a Deployment the way `kubectl rollout status` does, and tells availability apart from progress: while a
// rollout is under way, or has failed, the pods before it go on serving.
func judge(deployment *appsv1.Deployment) rollout {
	wanted := ptr.Deref(deployment.Spec.Replicas, 1)
	seen := deployment.Status
	state := availability(seen.AvailableReplicas, wanted)

	switch failed := conditionOf(deployment, appsv1.DeploymentProgressing); {
	case seen.ObservedGeneration < deployment.Generation:
		state.outcome = status.Wait(0, v1alpha1.ReasonProgressing, rollingOut)
	case failed != nil && failed.Reason == "ProgressDeadlineExceeded":
		state.outcome = status.Stall(v1alpha1.ReasonRolloutFailed, fmt.Sprintf(
			"Deployment %q gave up on its rollout: `kubectl describe` tells why its pods do not become ready.", deployment.Name))
	case seen.UpdatedReplicas < wanted:
		state.outcome = status.Wait(0, v1alpha1.ReasonProgressing, fmt.Sprintf(
			"%d of %d pods of the queue API are of the current version.", seen.UpdatedReplicas, wanted))
	case seen.Replicas > seen.UpdatedReplicas:
		state.outcome = status.Wait(0, v1alpha1.ReasonProgressing, fmt.Sprintf(
			"%d pods of the previous version are to end.", seen.Replicas-seen.UpdatedReplicas))
	case wanted == 0:
		state.outcome = status.Done(v1alpha1.ReasonScaledToZero,
			"`api.replicas` is 0: nothing serves, and messages are kept.")
	case seen.AvailableReplicas < wanted:
		state.outcome = status.Wait(0, v1alpha1.ReasonMinimumReplicasUnavailable, readyPods(seen.AvailableReplicas, wanted))
	default:
		state.outcome = status.Done(v1alpha1.ReasonReady, "The queue API serves.")
	}

	return state
}

// availability tells whether the queue API can be used. One pod will do: more of them are being started when a Broker
// is scaled up, and ending when a node is drained, without anybody being in want of anything.
func availability(up, wanted int32) rollout {
	switch {
	case wanted == 0:
		return rollout{
			available: metav1.ConditionFalse, reason: v1alpha1.ReasonScaledToZero, message: "`api.replicas` is 0.",
		}
	case up > 0:
		return rollout{
			available: metav1.ConditionTrue, reason: v1alpha1.ReasonMinimumReplicasAvailable, message: readyPods(up, wanted),
		}
	default:
		return rollout{
			available: metav1.ConditionFalse, reason: v1alpha1.ReasonMinimumReplicasUnavailable,
			message: "No pod of the queue API is ready.",
		}
	}
}

// readyPods leaves out how many a rollout has beside those that are asked for.
func readyPods(up, wanted int32) string {
	return fmt.Sprintf("%d of %d pods of the queue API are ready.", min(up, wanted), wanted)
}

func conditionOf(deployment *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range deployment.Status.Conditions {
		if deployment.Status.Conditions[i].Type == kind {
			return &deployment.Status.Conditions[i]
		}
	}

	return nil
}
