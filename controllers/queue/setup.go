package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/pace"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/message"
)

const (
	controllerName = "queue"
	concurrency    = 4

	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// Indexes of the cache.
const (
	// indexQueueName holds the canonical name of a Queue's physical queue.
	indexQueueName = "physicalQueue"
	// indexCandidate holds every Broker that may serve a Queue.
	indexCandidate = "candidateBroker"
	// indexBound holds the Broker that a Queue is stored in.
	indexBound = "boundBroker"
)

// Setup adds the Queue controller and the depth reader to a manager, whose cache holds the watched namespaces; none
// means all.
func Setup(
	mgr ctrl.Manager, registry *databases.Registry, defaultBroker types.NamespacedName, watched ...string,
) error {
	reconciler := newReconciler(mgr, registry, defaultBroker, watched...)
	if err := reconciler.index(mgr); err != nil {
		return err
	}
	lost := make(chan event.TypedGenericEvent[types.NamespacedName])
	if err := mgr.Add(newDepths(mgr.GetClient(), registry, lost)); err != nil {
		return fmt.Errorf("add depth reader: %w", err)
	}
	return reconciler.build(mgr, lost)
}

func newReconciler(
	mgr ctrl.Manager, registry *databases.Registry, defaultBroker types.NamespacedName, watched ...string,
) *Reconciler {
	namespaces := client.Reader(mgr.GetClient())
	if len(watched) > 0 {
		// To watch namespaces, it would have to be allowed to see all of them.
		namespaces = mgr.GetAPIReader()
	}
	return &Reconciler{
		Client:        mgr.GetClient(),
		Namespaces:    namespaces,
		Watched:       watched,
		Status:        status.NewWriter(mgr.GetClient(), mgr.GetEventRecorder("deadletter-queue")),
		Databases:     registry,
		DefaultBroker: defaultBroker,
	}
}

func (r *Reconciler) index(mgr ctrl.Manager) error {
	for name, keys := range map[string]func(*v1alpha1.Queue) []string{
		indexQueueName: func(queue *v1alpha1.Queue) []string {
			name, err := message.ParseQueueName(queue.EffectiveQueueName())
			if err != nil {
				return nil
			}
			return []string{name}
		},
		indexCandidate: func(queue *v1alpha1.Queue) []string {
			var keys []string
			for _, key := range candidates(queue, r.DefaultBroker) {
				keys = append(keys, key.String())
			}
			return keys
		},
		indexBound: func(queue *v1alpha1.Queue) []string {
			return []string{boundBroker(queue).String()}
		},
	} {
		extract := func(object client.Object) []string {
			queue, ok := object.(*v1alpha1.Queue)
			if !ok {
				return nil
			}
			return keys(queue)
		}
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Queue{}, name, extract); err != nil {
			return fmt.Errorf("index Queues by %s: %w", name, err)
		}
	}
	return nil
}

// build adds the controller. What wakes a Queue: its own spec; a namesake that comes, goes or is accepted; its Broker;
// the labels of its namespace, where they can be watched; and the depth reader, when the database has forgotten the
// queue.
func (r *Reconciler) build(mgr ctrl.Manager, lost <-chan event.TypedGenericEvent[types.NamespacedName]) error {
	controller := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.Queue{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Queue{}, handler.EnqueueRequestsFromMapFunc(r.namesakes), builder.WithPredicates(claimChanged)).
		Watches(&v1alpha1.Broker{}, handler.EnqueueRequestsFromMapFunc(r.servedBy), builder.WithPredicates(brokerChanged)).
		WatchesRawSource(source.TypedChannel(lost, handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, key types.NamespacedName) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: key}}
			}))).
		WithOptions(pace.Options(concurrency, firstRetry, lastRetry))
	if len(r.Watched) == 0 {
		controller.WatchesMetadata(namespaceMetadata(), handler.EnqueueRequestsFromMapFunc(r.livingIn),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	if err := controller.Complete(pace.Calm(r)); err != nil {
		return fmt.Errorf("build Queue controller: %w", err)
	}
	return nil
}

// claimChanged passes the events of a Queue that may change what other Queues of its name are granted.
var claimChanged = predicate.Funcs{
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(update event.UpdateEvent) bool {
		before, wasQueue := update.ObjectOld.(*v1alpha1.Queue)
		after, isQueue := update.ObjectNew.(*v1alpha1.Queue)
		return wasQueue && isQueue &&
			(before.Generation != after.Generation || boundBroker(before) != boundBroker(after) ||
				conditionChanged(before.Status.Conditions, after.Status.Conditions, v1alpha1.ConditionAccepted))
	},
}

// brokerChanged passes the events of a Broker that may change what becomes of its Queues.
var brokerChanged = predicate.Funcs{
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(update event.UpdateEvent) bool {
		before, wasBroker := update.ObjectOld.(*v1alpha1.Broker)
		after, isBroker := update.ObjectNew.(*v1alpha1.Broker)
		return wasBroker && isBroker &&
			(before.Generation != after.Generation || before.Status.Endpoint != after.Status.Endpoint ||
				conditionChanged(before.Status.Conditions, after.Status.Conditions,
					v1alpha1.ConditionDatabaseReady, v1alpha1.ConditionSchemaReady, v1alpha1.ConditionAvailable))
	},
}

// conditionChanged tells whether one of the conditions has another status.
func conditionChanged(before, after []metav1.Condition, conditionTypes ...string) bool {
	return slices.ContainsFunc(conditionTypes, func(conditionType string) bool {
		return statusOf(before, conditionType) != statusOf(after, conditionType)
	})
}

func statusOf(conditions []metav1.Condition, conditionType string) metav1.ConditionStatus {
	if condition := apimeta.FindStatusCondition(conditions, conditionType); condition != nil {
		return condition.Status
	}
	return ""
}

// namesakes are the other Queues that ask for the same name.
func (r *Reconciler) namesakes(ctx context.Context, object client.Object) []reconcile.Request {
	queue, ok := object.(*v1alpha1.Queue)
	if !ok {
		return nil
	}
	name, err := message.ParseQueueName(queue.EffectiveQueueName())
	if err != nil {
		return nil
	}
	requests := r.requests(ctx, client.MatchingFields{indexQueueName: name})
	return slices.DeleteFunc(requests, func(request reconcile.Request) bool {
		return request.NamespacedName == client.ObjectKeyFromObject(queue)
	})
}

// servedBy are the Queues that a Broker may serve.
func (r *Reconciler) servedBy(ctx context.Context, broker client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{indexCandidate: client.ObjectKeyFromObject(broker).String()})
}

// livingIn are the Queues of a namespace, which labels may or may not admit to a Broker.
func (r *Reconciler) livingIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(namespace.GetName()))
}

func (r *Reconciler) requests(ctx context.Context, option client.ListOption) []reconcile.Request {
	var queues v1alpha1.QueueList
	if err := r.Client.List(ctx, &queues, option, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List Queues to wake")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(queues.Items))
	for i := range queues.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&queues.Items[i])})
	}
	return requests
}
