package queue

import (
	"cmp"
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// rival returns the Queue that has the better claim to the physical queue name on broker, or nil.
func (r *Reconciler) rival(ctx context.Context, queue *v1alpha1.Queue, broker types.NamespacedName, name string) (
	*v1alpha1.Queue, error,
) {
	var namesakes v1alpha1.QueueList
	if err := r.Client.List(ctx, &namesakes, client.MatchingFields{indexQueueName: name}); err != nil {
		return nil, fmt.Errorf("list Queues of the same name: %w", err)
	}
	var best *v1alpha1.Queue
	for i := range namesakes.Items {
		other := &namesakes.Items[i]
		if other.UID == queue.UID || !precedes(other, queue, broker) || best != nil && !precedes(other, best, broker) {
			continue
		}
		serving, _, err := r.brokerFor(ctx, other)
		if err != nil {
			return nil, err
		}
		if serving != nil && client.ObjectKeyFromObject(serving) == broker {
			best = other
		}
	}
	return best, nil
}

// precedes orders the claims to one physical queue. A Queue that holds it keeps it, whatever comes up later: an older
// Queue may get its claim only now, because a Broker admits its namespace only now. Else the older one wins.
func precedes(a, b *v1alpha1.Queue, broker types.NamespacedName) bool {
	if holder := holds(a, broker); holder != holds(b, broker) {
		return holder
	}
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

// holds tells whether a Queue's settings are the ones stored in broker.
func holds(queue *v1alpha1.Queue, broker types.NamespacedName) bool {
	return boundBroker(queue) == broker &&
		apimeta.IsStatusConditionTrue(queue.Status.Conditions, v1alpha1.ConditionSynced)
}

// boundBroker is the Broker that the Queue was last stored in, or nothing.
func boundBroker(queue *v1alpha1.Queue) types.NamespacedName {
	return types.NamespacedName{Namespace: queue.Status.Broker.Namespace, Name: queue.Status.Broker.Name}
}

func conflict(queue, winner *v1alpha1.Queue, broker types.NamespacedName, name string) *refusal {
	other := "a Queue of another namespace"
	if winner.Namespace == queue.Namespace {
		other = fmt.Sprintf("the Queue %q", winner.Name)
	}
	return &refusal{v1alpha1.ReasonConflict, fmt.Sprintf("The queue %q of Broker %q is already declared by %s. Delete "+
		"one of the two, or give this one another `queueName` by creating it again; it takes over when the other is gone.",
		name, broker.Name, other), false}
}
