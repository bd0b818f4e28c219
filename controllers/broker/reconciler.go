// Package broker reconciles Brokers: it finds or runs the database, migrates the schema, and runs the queue API over
// it.
package broker

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

const (
	// checkEvery is how often a database is asked whether it still answers, and what no watch tells of is looked at again.
	checkEvery = 30 * time.Second
	// provisioningPoll is how often a managed database that is starting is tried.
	provisioningPoll = 3 * time.Second
	// leavingPoll is how often an object is looked for that has to go before its successor can come.
	leavingPoll = 2 * time.Second
	// deletionTimeout is how long a deletion waits for a database that does not answer.
	deletionTimeout = 5 * time.Minute
)

// Databases is what the reconciler needs of the registry.
type Databases interface {
	Connect(ctx context.Context, broker types.NamespacedName, config databases.Config) (*store.Store, error)
	Migrate(ctx context.Context, broker types.NamespacedName, config databases.Config, progress func(int, string)) (
		store.MigrateResult, error)
	DropSchema(ctx context.Context, broker types.NamespacedName, config databases.Config) (bool, error)
	Forget(broker types.NamespacedName)
}

// Reconciler reconciles Brokers.
type Reconciler struct {
	// Client reads from the cache, except Secrets, and writes.
	Client client.Client
	// Reader reads what is not cached.
	Reader client.Reader
	// Status writes status.
	Status *status.Writer
	// Databases are the Brokers' databases.
	Databases Databases
	// Image is the queue API's, where a Broker names none.
	Image string
	// Clock tells how long a deletion has waited.
	Clock clock.PassiveClock

	claims claims
}

// +kubebuilder:rbac:groups=deadletter.dev,resources=brokers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=deadletter.dev,resources=brokers/status,verbs=patch
// +kubebuilder:rbac:groups=deadletter.dev,resources=brokers/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=namespaces;persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one Broker closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	broker := &v1alpha1.Broker{}

	err := r.Client.Get(ctx, request.NamespacedName, broker)
	if apierrors.IsNotFound(err) {
		r.forget(request.NamespacedName)

		return ctrl.Result{}, nil
	}

	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read the Broker: %w", err)
	}

	if !broker.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, broker)
	}

	if err := r.keepFinalizer(ctx, broker); err != nil {
		return ctrl.Result{}, err
	}

	pass := r.Status.Begin(broker)
	pass.Introduce(v1alpha1.ConditionAccepted, v1alpha1.ConditionDatabaseReady, v1alpha1.ConditionSchemaReady,
		v1alpha1.ConditionAvailable)

	outcome, err := r.run(ctx, &work{broker: broker, pass: pass})

	return pass.Finish(ctx, outcome, err)
}

// work is what the steps of one reconciliation hand on to each other.
type work struct {
	broker *v1alpha1.Broker
	pass   *status.Pass
	// source is where the database's URL comes from, config is what it says.
	source source
	config databases.Config
	// identity tells the database and schema from every other.
	identity string
	// schema is the schema's distance from this release's version, nil when there is none.
	schema *store.SchemaError
	// generation is the Deployment's, at which it is what the spec asks for.
	generation int64
	// accepted is set once nothing is known against the spec.
	accepted bool
}

func (w *work) key() types.NamespacedName { return client.ObjectKeyFromObject(w.broker) }

// run takes the steps in order, up to the first that has to wait, and shows the queue API's state in any case.
func (r *Reconciler) run(ctx context.Context, w *work) (status.Outcome, error) {
	outcome, err := r.steps(ctx, w)

	observed, observeErr := r.observe(ctx, w)

	if w.accepted {
		w.pass.True(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "The spec is valid and permitted.")
	}

	switch {
	case err != nil:
		return outcome, err
	case !outcome.IsDone():
		return outcome, observeErr
	case observeErr != nil:
		return status.Outcome{}, observeErr
	case !observed.IsDone():
		return observed, nil
	default:
		return observed.Again(checkEvery), nil
	}
}

func (r *Reconciler) steps(ctx context.Context, w *work) (status.Outcome, error) {
	for _, step := range []func(context.Context, *work) (status.Outcome, error){
		r.provision,
		r.resolve,
		r.claim,
		r.connect,
		r.migrate,
		r.serve,
	} {
		if outcome, err := step(ctx, w); err != nil || !outcome.IsDone() {
			return outcome, err
		}
	}

	return status.Outcome{}, nil
}

// forget lets go of everything this process holds for a Broker.
func (r *Reconciler) forget(broker types.NamespacedName) {
	r.Databases.Forget(broker)
	r.claims.release(broker)
}

// secret reads a Secret past the cache, which holds no Secrets; nil means that it does not exist.
func (r *Reconciler) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	var found corev1.Secret

	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &found)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a missing Secret is an answer
	}

	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}

	return &found, nil
}
