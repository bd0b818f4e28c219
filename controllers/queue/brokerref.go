package queue

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

// refusal says why a Queue is not accepted, and whether only an edit can change that.
type refusal struct {
	reason, message string
	// waits is for what may pass by itself, such as a Broker that is applied after its Queues.
	waits bool
}

func (r *refusal) outcome() status.Outcome {
	if r.waits {
		return status.Wait(0, r.reason, r.message)
	}
	return status.Stall(r.reason, r.message)
}

// candidates are the Brokers that may serve a Queue; the first one that exists does.
//
// A Queue without brokerRef that has been stored in a Broker stays there: were a Broker `default` to appear in its
// namespace later, the Queue would otherwise leave its messages behind.
func candidates(queue *v1alpha1.Queue, defaultBroker types.NamespacedName) []types.NamespacedName {
	ref, bound := queue.Spec.BrokerRef, queue.Status.Broker
	switch {
	case ref.Name != "":
		return []types.NamespacedName{{Namespace: orNamespace(ref.Namespace, queue), Name: ref.Name}}
	case bound.Name != "":
		return []types.NamespacedName{{Namespace: bound.Namespace, Name: bound.Name}}
	default:
		own := types.NamespacedName{Namespace: queue.Namespace, Name: v1alpha1.DefaultBrokerName}
		if defaultBroker.Name == "" || defaultBroker == own {
			return []types.NamespacedName{own}
		}
		return []types.NamespacedName{own, defaultBroker}
	}
}

func orNamespace(namespace string, queue *v1alpha1.Queue) string {
	if namespace == "" {
		return queue.Namespace
	}
	return namespace
}

// brokerFor returns the Broker that serves a Queue, or why there is none.
func (r *Reconciler) brokerFor(ctx context.Context, queue *v1alpha1.Queue) (*v1alpha1.Broker, *refusal, error) {
	keys, found := candidates(queue, r.DefaultBroker), false
	for _, key := range keys {
		if !r.isWatched(key.Namespace) {
			continue
		}
		var broker v1alpha1.Broker
		if err := r.Client.Get(ctx, key, &broker); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, nil, fmt.Errorf("read Broker %s: %w", key, err)
		}
		found = true
		permitted, err := r.admits(ctx, &broker, queue.Namespace)
		if err != nil {
			return nil, nil, err
		}
		if permitted {
			return &broker, nil, nil
		}
	}
	if key := keys[0]; queue.Spec.BrokerRef.Name == "" && key == r.DefaultBroker && key.Namespace != queue.Namespace &&
		r.isWatched(key.Namespace) {
		return nil, lost(queue, key, found), nil
	}
	return nil, refuse(queue, keys), nil
}

// lost words the absence of the operator's default Broker, in which a Queue has been stored. It is no secret, unlike
// Brokers of other namespaces.
func lost(queue *v1alpha1.Queue, key types.NamespacedName, exists bool) *refusal {
	if exists {
		return &refusal{v1alpha1.ReasonRefNotPermitted, fmt.Sprintf("The operator's default Broker %q of namespace %q, in "+
			"which this Queue is stored, no longer admits namespace %q in its `allowedNamespaces`. Ask its owner to admit it.",
			key.Name, key.Namespace, queue.Namespace), false}
	}
	return &refusal{v1alpha1.ReasonBrokerNotFound, fmt.Sprintf("The operator's default Broker %q of namespace %q, in "+
		"which this Queue is stored, is gone. The Queue goes on when it is there again.", key.Name, key.Namespace), true}
}

// isWatched tells whether anything is known of a namespace. What is in the others is not there, for this operator.
func (r *Reconciler) isWatched(namespace string) bool {
	return len(r.Watched) == 0 || slices.Contains(r.Watched, namespace)
}

// unwatched asks for another look where the labels that a grant hangs on are not watched.
func (r *Reconciler) unwatched(outcome status.Outcome) status.Outcome {
	if len(r.Watched) == 0 {
		return outcome
	}
	return outcome.Again(labelWait)
}

// refuse words the absence of a Broker. Of another namespace it never tells a Broker that does not exist from one that
// does not admit this namespace.
func refuse(queue *v1alpha1.Queue, keys []types.NamespacedName) *refusal {
	only := keys[0]
	switch {
	case len(keys) > 1 || only.Namespace == queue.Namespace && queue.Spec.BrokerRef.Name == "":
		return &refusal{v1alpha1.ReasonBrokerNotFound, fmt.Sprintf("No Broker serves this Queue: there is no Broker %q in "+
			"its namespace, and no default Broker that admits it. Create one, or name another in `brokerRef` of a new Queue.",
			only.Name), true}
	case only.Namespace == queue.Namespace:
		return &refusal{v1alpha1.ReasonBrokerNotFound, fmt.Sprintf("The Broker %q does not exist in this namespace. "+
			"Create it, or name another one in `brokerRef` of a new Queue.", only.Name), true}
	default:
		return &refusal{v1alpha1.ReasonRefNotPermitted, fmt.Sprintf("The Broker %q of namespace %q does not exist, or its "+
			"`allowedNamespaces` does not admit namespace %q. Ask its owner to admit it, or create a Broker here.",
			only.Name, only.Namespace, queue.Namespace), false}
	}
}

// admits tells whether a Broker's allowedNamespaces lets in Queues of a namespace.
func (r *Reconciler) admits(ctx context.Context, broker *v1alpha1.Broker, namespace string) (bool, error) {
	if broker.Namespace == namespace {
		return true, nil
	}
	switch allowed := broker.Spec.AllowedNamespaces; allowed.EffectiveFrom() {
	case v1alpha1.NamespacesFromAll:
		return true, nil
	case v1alpha1.NamespacesFromSelector:
		return r.selects(ctx, allowed.Selector, namespace)
	case v1alpha1.NamespacesFromSame:
		return false, nil
	default:
		// A way to choose that this release does not know grants nothing.
		return false, nil
	}
}

func (r *Reconciler) selects(ctx context.Context, selector *metav1.LabelSelector, namespace string) (bool, error) {
	// A selector that is missing selects nothing, and one that cannot be read grants nothing.
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	object := namespaceMetadata()
	if err := r.Namespaces.Get(ctx, client.ObjectKey{Name: namespace}, object); err != nil {
		return false, fmt.Errorf("read labels of namespace %s: %w", namespace, err)
	}
	return matcher.Matches(labels.Set(object.Labels)), nil
}

// namespaceMetadata is what is read of a Namespace: the cache holds no more than that.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}
