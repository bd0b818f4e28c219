package replay

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/pace"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/replay"
)

const (
	controllerName = "replay"
	// concurrency is above what is needed to keep the databases busy, so that one long selection holds up nobody.
	concurrency = 8

	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// indexQueueRef holds the names of a Replay's Queues: the one whose letters it is about, and its target.
const indexQueueRef = "queueRef"

// Setup adds the Replay controller and what looks after orphaned runs to a manager.
func Setup(mgr ctrl.Manager, registry *databases.Registry) error {
	engine := replay.NewEngine(time.Now)
	reconciler := newReconciler(mgr, registry, engine)
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.Replay{}, indexQueueRef, queueRefs)
	if err != nil {
		return fmt.Errorf("index Replays by Queue: %w", err)
	}
	if err := mgr.Add(newOrphans(mgr.GetClient(), mgr.GetAPIReader(), registry, engine, time.Now)); err != nil {
		return fmt.Errorf("add orphaned runs: %w", err)
	}
	return reconciler.build(mgr)
}

func newReconciler(mgr ctrl.Manager, registry *databases.Registry, engine *replay.Engine) *Reconciler {
	return &Reconciler{
		Client:    mgr.GetClient(),
		Live:      mgr.GetAPIReader(),
		Status:    status.NewWriter(mgr.GetClient(), mgr.GetEventRecorder("deadletter-replay")),
		Databases: registry,
		Engine:    engine,
		Now:       time.Now,
		progress:  newProgress(time.Now),
	}
}

func newOrphans(
	cached, live client.Reader, registry *databases.Registry, engine *replay.Engine, now func() time.Time,
) *orphans {
	return &orphans{
		cached: cached, live: live, registry: registry, engine: engine, now: now,
		driven: map[orphan]bool{}, missed: map[orphan]time.Time{},
	}
}

func queueRefs(object client.Object) []string {
	replay, ok := object.(*v1alpha1.Replay)
	if !ok {
		return nil
	}
	names := []string{replay.Spec.QueueRef.Name}
	if target := replay.TargetQueue(); target != "" {
		names = append(names, target)
	}
	return names
}

// build adds the controller. What wakes a Replay: its own spec, its Queue, and the time that it asked for.
func (r *Reconciler) build(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.Replay{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Queue{}, handler.EnqueueRequestsFromMapFunc(r.of), builder.WithPredicates(queueChanged)).
		WithOptions(pace.Options(concurrency, firstRetry, lastRetry)).
		Complete(pace.Calm(r))
	if err != nil {
		return fmt.Errorf("build Replay controller: %w", err)
	}
	return nil
}

// queueChanged passes the events of a Queue that may change whether its letters can be replayed; its depth does not.
var queueChanged = predicate.Funcs{
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(update event.UpdateEvent) bool {
		before, wasQueue := update.ObjectOld.(*v1alpha1.Queue)
		after, isQueue := update.ObjectNew.(*v1alpha1.Queue)
		return wasQueue && isQueue && (unready(before) != unready(after) || brokerOf(before) != brokerOf(after))
	},
}

// of are the Replays of a Queue that are not over.
func (r *Reconciler) of(ctx context.Context, queue client.Object) []reconcile.Request {
	var replays v1alpha1.ReplayList
	err := r.Client.List(ctx, &replays, client.InNamespace(queue.GetNamespace()),
		client.MatchingFields{indexQueueRef: queue.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List Replays to wake")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(replays.Items))
	for i := range replays.Items {
		replay := &replays.Items[i]
		isOver := apimeta.IsStatusConditionTrue(replay.Status.Conditions, v1alpha1.ConditionSucceeded) &&
			replay.Status.ObservedGeneration == replay.Generation
		if !isOver {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(replay)})
		}
	}
	return requests
}
