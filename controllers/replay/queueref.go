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
	queue := &v1alpha1.Queue{}
	key := client.ObjectKey{Namespace: object.Namespace, Name: object.Spec.QueueRef.Name}
	if err := r.Client.Get(ctx, key, queue); apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is an ordinary answer
	} else if err != nil {
		return nil, fmt.Errorf("read Queue %s: %w", key, err)
	}
	return queue, nil
}

// ready returns the Queue when it is stored in a database, or what to wait for.
func (r *Reconciler) ready(ctx context.Context, pass *status.Pass, object *v1alpha1.Replay) (
	*v1alpha1.Queue, status.Outcome, error,
) {
	queue, err := r.queueOf(ctx, object)
	if err != nil {
		return nil, status.Outcome{}, err
	}
	if queue == nil {
		message := fmt.Sprintf("The Queue %q does not exist in this namespace. The run starts when it is there.",
			object.Spec.QueueRef.Name)
		pass.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonQueueNotFound, message)
		return nil, status.Wait(0, v1alpha1.ReasonQueueNotFound, message), nil
	}
	pass.True(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "The spec is valid.")
	if why := unready(queue); why != "" {
		message := fmt.Sprintf("The Queue %q %s. The run goes on when it is in order.", queue.Name, why)
		return nil, status.Wait(0, v1alpha1.ReasonQueueNotReady, message), nil
	}
	return queue, status.Outcome{}, nil
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
