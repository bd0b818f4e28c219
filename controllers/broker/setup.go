package broker

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/pace"
	"deadletter.dev/deadletter/controllers/status"
)

const (
	controllerName = "broker"
	concurrency    = 4

	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// indexSecret holds the name of the Secret that a Broker's URL is in.
const indexSecret = "databaseSecret"

// Setup adds the Broker controller to a manager. Image is the queue API's, where a Broker names none.
func Setup(ctx context.Context, mgr ctrl.Manager, registry Databases, image string) error {
	reconciler := &Reconciler{
		Client:    mgr.GetClient(),
		Reader:    mgr.GetAPIReader(),
		Status:    status.NewWriter(mgr.GetClient(), mgr.GetEventRecorder("deadletter-broker")),
		Databases: registry,
		Image:     image,
		Clock:     clock.RealClock{},
	}

	return reconciler.Setup(ctx, mgr)
}

// Setup adds the controller to a manager. What wakes a Broker: itself, what it owns, its Secret, and another Broker of
// the same schema that comes, goes or moves.
//
// Its own status wakes it too, once: the cache may have been behind in the pass that wrote it.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Broker{}, indexSecret, func(object client.Object) []string {
		broker, ok := object.(*v1alpha1.Broker)
		if !ok {
			return nil
		}

		return []string{sourceOf(broker).secretName}
	})
	if err != nil {
		return fmt.Errorf("index Brokers by Secret: %w", err)
	}

	err = ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.Broker{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.readers), builder.OnlyMetadata).
		Watches(&v1alpha1.Broker{}, handler.EnqueueRequestsFromMapFunc(r.rivals),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(pace.Options(concurrency, firstRetry, lastRetry)).
		Complete(pace.Calm(r))
	if err != nil {
		return fmt.Errorf("build Broker controller: %w", err)
	}

	return nil
}

// readers are the Brokers that read a Secret.
func (r *Reconciler) readers(ctx context.Context, secret client.Object) []reconcile.Request {
	return r.requests(ctx, func(*v1alpha1.Broker) bool { return true },
		client.InNamespace(secret.GetNamespace()), client.MatchingFields{indexSecret: secret.GetName()})
}

// rivals are the other Brokers that ask for a schema of the same name.
func (r *Reconciler) rivals(ctx context.Context, object client.Object) []reconcile.Request {
	broker, ok := object.(*v1alpha1.Broker)
	if !ok {
		return nil
	}

	return r.requests(ctx, func(other *v1alpha1.Broker) bool {
		return other.UID != broker.UID && other.EffectiveSchema() == broker.EffectiveSchema()
	})
}

func (r *Reconciler) requests(
	ctx context.Context, want func(*v1alpha1.Broker) bool, options ...client.ListOption,
) []reconcile.Request {
	var brokers v1alpha1.BrokerList
	if err := r.Client.List(ctx, &brokers, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List Brokers to wake")

		return nil
	}

	var requests []reconcile.Request

	for i := range brokers.Items {
		if broker := &brokers.Items[i]; want(broker) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(broker)})
		}
	}

	return requests
}
