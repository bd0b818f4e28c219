package queue

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/finalizer"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

const (
	// brokerWait is how often a Broker is looked at that is not ready, beside its watch.
	brokerWait = 30 * time.Second
	// startWait is how long to wait for this process to connect to a Broker whose database is in order.
	startWait = time.Second
	// labelWait is how often the labels of a namespace are looked at where they cannot be watched.
	labelWait = time.Minute
	// The settings are compared with the database every now and then, at different times for different Queues.
	syncInterval = 10 * time.Minute
	syncSpread   = 2 * time.Minute
)

// Reconciler brings Queues into their Brokers' databases.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Namespaces reads namespaces: from the cache, or past it where they are not watched.
	Namespaces client.Reader
	// Watched are the namespaces that Client knows; none means all.
	Watched []string
	// Status writes status.
	Status *status.Writer
	// Databases are the Brokers' databases.
	Databases *databases.Registry
	// DefaultBroker serves Queues without brokerRef whose namespace has no Broker `default`.
	DefaultBroker types.NamespacedName
}

// +kubebuilder:rbac:groups=deadletter.dev,resources=queues,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=deadletter.dev,resources=queues/status,verbs=patch
// +kubebuilder:rbac:groups=deadletter.dev,resources=queues/finalizers,verbs=update
// +kubebuilder:rbac:groups=deadletter.dev,resources=brokers,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one Queue where its spec asks it to be.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	queue := &v1alpha1.Queue{}
	if err := r.Client.Get(ctx, request.NamespacedName, queue); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !queue.DeletionTimestamp.IsZero() {
		return r.delete(ctx, queue)
	}
	before := queue.DeepCopy()
	if controllerutil.AddFinalizer(queue, v1alpha1.Finalizer) {
		if err := finalizer.Write(ctx, r.Client, queue, before); err != nil {
			return ctrl.Result{}, err
		}
	}
	pass := r.Status.Begin(queue)
	pass.Introduce(v1alpha1.ConditionAccepted, v1alpha1.ConditionSynced)
	name, broker, refused, err := r.place(ctx, queue)
	switch {
	case err != nil:
		return pass.Finish(ctx, status.Outcome{}, err)
	case refused != nil:
		r.reject(pass, queue, refused)
		return pass.Finish(ctx, r.unwatched(refused.outcome()), nil)
	}
	if r.isStarting(queue, broker) {
		return ctrl.Result{RequeueAfter: startWait}, nil
	}
	pass.True(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted,
		fmt.Sprintf("The queue %q is served by Broker %q.", name, broker.Name))
	outcome, err := r.sync(ctx, pass, queue, broker, name)
	if broker.Namespace != queue.Namespace {
		outcome = r.unwatched(outcome)
	}
	return pass.Finish(ctx, outcome, err)
}

// place decides which physical queue of which Broker is the Queue's, or why there is none.
func (r *Reconciler) place(ctx context.Context, queue *v1alpha1.Queue) (
	name string, broker *v1alpha1.Broker, refused *refusal, err error,
) {
	if name, refused = validate(queue); refused != nil {
		return "", nil, refused, nil
	}
	if broker, refused, err = r.brokerFor(ctx, queue); err != nil || refused != nil {
		return "", nil, refused, err
	}
	key := client.ObjectKeyFromObject(broker)
	winner, err := r.rival(ctx, queue, key, name)
	if err != nil {
		return "", nil, nil, err
	}
	if winner != nil {
		return "", nil, conflict(queue, winner, key, name), nil
	}
	return name, broker, nil, nil
}

// reject shows why a Queue is not accepted, and nothing of a queue that it may not see.
func (r *Reconciler) reject(pass *status.Pass, queue *v1alpha1.Queue, refused *refusal) {
	pass.False(v1alpha1.ConditionAccepted, refused.reason, refused.message)
	pass.False(v1alpha1.ConditionSynced, refused.reason, "The Queue is not accepted.")
	queue.Status.Endpoint = ""
	queue.Status.Messages = v1alpha1.QueueMessages{}
	queue.Status.DeadLetters = v1alpha1.QueueDeadLetters{}
	queue.Status.CircuitBreaker = v1alpha1.QueueCircuitBreakerStatus{}
}

// isStarting tells whether nothing is known against a Queue that was in order: this process is about to connect to a
// database that its Broker says is ready. Such a Queue keeps its status.
func (r *Reconciler) isStarting(queue *v1alpha1.Queue, broker *v1alpha1.Broker) bool {
	_, err := r.Databases.Get(client.ObjectKeyFromObject(broker))
	return err != nil && holds(queue, client.ObjectKeyFromObject(broker)) &&
		queue.Status.ObservedGeneration == queue.Generation &&
		apimeta.IsStatusConditionTrue(broker.Status.Conditions, v1alpha1.ConditionDatabaseReady) &&
		apimeta.IsStatusConditionTrue(broker.Status.Conditions, v1alpha1.ConditionSchemaReady)
}

// sync stores the settings in the Broker's database.
func (r *Reconciler) sync(
	ctx context.Context, pass *status.Pass, queue *v1alpha1.Queue, broker *v1alpha1.Broker, name string,
) (status.Outcome, error) {
	key := client.ObjectKeyFromObject(broker)
	queue.Status.Effective, queue.Status.QueueName = queue.Effective(), name
	db, err := r.Databases.Get(key)
	if err != nil {
		message := fmt.Sprintf("Broker %q has no database to store the Queue in yet.", broker.Name)
		pass.False(v1alpha1.ConditionSynced, v1alpha1.ReasonBrokerNotReady, message)
		return status.Wait(brokerWait, v1alpha1.ReasonBrokerNotReady, message), nil //nolint:nilerr // its watch wakes us
	}
	if _, err := db.DeclareQueue(ctx, name, owner(queue), settings(queue)); err != nil {
		return status.Outcome{}, unsynced(pass, broker.Name, err)
	}
	queue.Status.Broker = v1alpha1.QueueBrokerStatus{Name: key.Name, Namespace: key.Namespace}
	queue.Status.Endpoint = endpoint(broker, name)
	pass.True(v1alpha1.ConditionSynced, v1alpha1.ReasonSynced, "The settings are stored in the database.")
	return serving(queue, broker).Again(next(queue)), nil
}

// serving tells what becomes of messages of a Queue whose settings are stored.
func serving(queue *v1alpha1.Queue, broker *v1alpha1.Broker) status.Outcome {
	switch {
	case !apimeta.IsStatusConditionTrue(broker.Status.Conditions, v1alpha1.ConditionAvailable):
		return status.Wait(0, v1alpha1.ReasonBrokerNotAvailable, fmt.Sprintf("No pod of the queue API of Broker %q is "+
			"ready: messages are neither taken nor handed out.", broker.Name))
	case queue.EffectiveState() == v1alpha1.QueuePaused:
		return status.Done(v1alpha1.ReasonPaused, "The queue takes messages and hands out none.")
	default:
		return status.Done(v1alpha1.ReasonReady, "The queue takes messages and hands them out.")
	}
}

// unsynced shows that the settings may not be stored; the cause is for the log.
func unsynced(pass *status.Pass, broker string, err error) error {
	reason, message := v1alpha1.ReasonRetrying, fmt.Sprintf("The database of Broker %q refused the settings.", broker)
	if store.IsUnavailable(err) {
		reason = v1alpha1.ReasonDatabaseUnreachable
		message = fmt.Sprintf("The database of Broker %q does not answer.", broker)
	}
	if !errors.Is(err, context.Canceled) {
		pass.Unknown(v1alpha1.ConditionSynced, reason, message)
	}
	return status.Retry(reason, message, err)
}

func owner(queue *v1alpha1.Queue) store.Owner {
	return store.Owner{Namespace: queue.Namespace, Name: queue.Name}
}

func endpoint(broker *v1alpha1.Broker, name string) string {
	if broker.Status.Endpoint == "" {
		return ""
	}
	return strings.TrimSuffix(broker.Status.Endpoint, "/") + "/queues/" + url.PathEscape(name)
}

// next spreads the Queues over time, each always at its own offset.
func next(queue *v1alpha1.Queue) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(queue.UID)) // never fails, by its contract
	return syncInterval + time.Duration(hash.Sum32())%syncSpread
}
