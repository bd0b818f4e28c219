package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/finalizer"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

const (
	// stepBudget is how long one pass moves letters before other Replays have their turn.
	stepBudget = time.Second
	// startWait is how long to wait for this process to connect to a database that is in order.
	startWait = time.Second
	// staleWait is how long to wait for the cache.
	staleWait = 100 * time.Millisecond
	// atOnce asks for another pass as soon as others have had theirs.
	atOnce = time.Millisecond
)

// Reasons of Events that are no condition's.
const (
	eventStarted      = "Started"
	eventAdopted      = "Adopted"
	eventDetached     = "Detached"
	eventCanaryPassed = "CanaryPassed"
)

// Reconciler carries out Replays.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Status writes status.
	Status *status.Writer
	// Databases are the Brokers' databases.
	Databases *databases.Registry
	// Engine steps runs; orphaned runs share it.
	Engine *replay.Engine
	// Now tells how long a deletion, a canary or an outcome has been waited for.
	Now func() time.Time

	progress *progress
}

// +kubebuilder:rbac:groups=deadletter.dev,resources=replays,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=deadletter.dev,resources=replays/status,verbs=patch
// +kubebuilder:rbac:groups=deadletter.dev,resources=replays/finalizers,verbs=update
// +kubebuilder:rbac:groups=deadletter.dev,resources=queues,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile takes one Replay a step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.Replay{}
	if err := r.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.DeletionTimestamp.IsZero() {
		return r.delete(ctx, object)
	}
	before := object.DeepCopy()
	if controllerutil.AddFinalizer(object, v1alpha1.Finalizer) {
		if err := finalizer.Write(ctx, r.Client, object, before); err != nil {
			return ctrl.Result{}, err
		}
	}
	pass := r.Status.Begin(object)
	pass.Introduce(v1alpha1.ConditionAccepted, v1alpha1.ConditionSuspended, v1alpha1.ConditionSucceeded)
	outcome, err := r.advance(ctx, pass, object)
	switch {
	case errors.Is(err, errStale):
		return ctrl.Result{RequeueAfter: staleWait}, nil
	case errors.Is(err, databases.ErrNotConnected) && object.Status.ObservedGeneration == object.Generation:
		// The Queue is in order, so this process is about to connect: nothing is known against the Replay.
		return ctrl.Result{RequeueAfter: startWait}, nil
	case errors.Is(err, databases.ErrNotConnected):
		outcome, err = hold(pass, status.Wait(startWait, v1alpha1.ReasonQueueNotReady,
			"The Queue's database is not connected yet.")), nil
	}
	return pass.Finish(ctx, outcome, err)
}

// errStale ends a pass that would have decided on an object that has changed since it was read.
var errStale = errors.New("the cache is behind")

// confirm fails with errStale unless the object is as the API server has it. Whether a run on record is this object's
// own hangs on its status, and the cache may be a write of our own behind.
func (r *Reconciler) confirm(ctx context.Context, object *v1alpha1.Replay) error {
	var live v1alpha1.Replay
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), &live)
	if apierrors.IsNotFound(err) || err == nil && live.ResourceVersion != object.ResourceVersion {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("read Replay: %w", err)
	}
	return nil
}

// advance does what there is to do next.
func (r *Reconciler) advance(ctx context.Context, pass *status.Pass, object *v1alpha1.Replay) (status.Outcome, error) {
	if wrong := validate(object); wrong != "" {
		pass.False(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, wrong)
		return status.Stall(v1alpha1.ReasonInvalid, wrong), nil
	}
	spec, err := runSpec(object)
	if err != nil {
		return status.Outcome{}, err
	}
	if recorded := verdict(object); recorded != nil && isAbout(object, spec) {
		return repeat(pass, *recorded).Again(r.follow(ctx, object)), nil
	}
	if object.IsSuspended() {
		pass.True(v1alpha1.ConditionSuspended, v1alpha1.ReasonSuspended, "`suspend` holds the run back.")
	} else {
		resume(pass)
	}
	found, outcome, err := r.ready(ctx, pass, object)
	switch {
	case err != nil:
		return outcome, err
	case !outcome.IsDone():
		return hold(pass, outcome), nil
	}
	db, err := r.Databases.Get(brokerOf(found.source))
	if err != nil {
		return outcome, err
	}
	spec.Key.Queue = found.source.Status.QueueName
	if found.target != nil {
		spec.Plan.Target = found.target.Status.QueueName
	}
	w := &work{Reconciler: r, pass: pass, object: object, db: db, spec: spec}
	return w.do(ctx)
}

// database is what a run needs of the store.
type database interface {
	replay.Runs

	StartRun(ctx context.Context, spec store.RunSpec) (store.Run, bool, error)
	GetRun(ctx context.Context, key store.RunKey, mode store.RunMode) (store.Run, error)
	ActiveRuns(ctx context.Context) ([]store.Run, error)
	SetRunRate(ctx context.Context, id int64, perSecond int) error
	AttachRun(ctx context.Context, id int64) error
	DetachRun(ctx context.Context, id int64) error
	CancelRun(ctx context.Context, id int64) (store.Run, error)
}
