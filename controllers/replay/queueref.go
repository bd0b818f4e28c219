package replay

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

// queueOf returns the Queue of a Replay, or nil when there is none.
func (r *Reconciler) queueOf(ctx context.Context, object *v1alpha1.Replay) (*v1alpha1.Queue, error) {
	return r.queue(ctx, client.ObjectKey{Namespace: object.Namespace, Name: object.Spec.QueueRef.Name})
}

func (r *Reconciler) queue(ctx context.Context, key client.ObjectKey) (*v1alpha1.Queue, error) {
	queue := &v1alpha1.Queue{}
	if err := r.Client.Get(ctx, key, queue); apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is an ordinary answer
	} else if err != nil {
		return nil, fmt.Errorf("read Queue %s: %w", key, err)
	}
	return queue, nil
}

// queues are the Queues of a Replay.
type queues struct {
	// source is where the letters died.
	source *v1alpha1.Queue
	// target is where the messages go, nil for the same.
	target *v1alpha1.Queue
}

// ready returns the Queues when they are stored in a database; the outcome says what to wait for otherwise.
func (r *Reconciler) ready(ctx context.Context, pass *status.Pass, object *v1alpha1.Replay) (
	found queues, outcome status.Outcome, err error,
) {
	if found.source, err = r.queueOf(ctx, object); err != nil {
		return found, outcome, err
	}
	if name := object.TargetQueue(); name != "" {
		key := client.ObjectKey{Namespace: object.Namespace, Name: name}
		if found.target, err = r.queue(ctx, key); err != nil {
			return found, outcome, err
		}
	}
	if refused := found.refused(object); !refused.IsDone() {
		pass.False(v1alpha1.ConditionAccepted, refused.Reason(), refused.Message())
		return found, refused, nil
	}
	pass.True(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "The spec is valid.")
	if why := unready(found.source); why != "" {
		return found, status.Wait(0, v1alpha1.ReasonQueueNotReady,
			fmt.Sprintf("The Queue %q %s. The run goes on when it is in order.", found.source.Name, why)), nil
	}
	if found.target == nil {
		return found, status.Outcome{}, nil
	}
	if why := unready(found.target); why != "" {
		return found, status.Wait(0, v1alpha1.ReasonTargetNotReady,
			fmt.Sprintf("The target Queue %q %s. The run goes on when it is in order.", found.target.Name, why)), nil
	}
	return found, status.Outcome{}, nil
}

// refused is done unless the Queues are not what the spec can mean.
func (q queues) refused(object *v1alpha1.Replay) status.Outcome {
	target := object.TargetQueue()
	switch {
	case q.source == nil:
		return status.Wait(0, v1alpha1.ReasonQueueNotFound, fmt.Sprintf(
			"The Queue %q does not exist in this namespace. The run starts when it is there.", object.Spec.QueueRef.Name))
	case target != "" && q.target == nil:
		return status.Wait(0, v1alpha1.ReasonTargetNotFound, fmt.Sprintf(
			"The target Queue %q does not exist in this namespace. The run goes on when it is there.", target))
	case q.target != nil && q.source.Status.Broker.Name != "" && q.target.Status.Broker.Name != "" &&
		brokerOf(q.source) != brokerOf(q.target):
		return status.Stall(v1alpha1.ReasonInvalid, fmt.Sprintf(
			"The target Queue %q must be of the same Broker as the Queue %q.", q.target.Name, q.source.Name))
	default:
		return status.Outcome{}
	}
}

// unready says why a Queue cannot be replayed, or nothing. A paused one can.
func unready(queue *v1alpha1.Queue) string {
	switch conditions := queue.Status.Conditions; {
	case !queue.DeletionTimestamp.IsZero():
		return "is being deleted"
	case apimeta.IsStatusConditionFalse(conditions, v1alpha1.ConditionAccepted):
		return "is not accepted: " + apimeta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted).Reason
	case !apimeta.IsStatusConditionTrue(conditions, v1alpha1.ConditionSynced), queue.Status.Broker.Name == "":
		return "is not stored in a database yet"
	default:
		return ""
	}
}

func brokerOf(queue *v1alpha1.Queue) types.NamespacedName {
	return types.NamespacedName{Namespace: queue.Status.Broker.Namespace, Name: queue.Status.Broker.Name}
}
