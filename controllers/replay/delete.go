package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/finalizer"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

const (
	// deleteWithin bounds how long a deletion waits for a database that does not answer.
	deleteWithin = 30 * time.Second
	retryDelete  = 2 * time.Second
	// deleteTimeout bounds one attempt.
	deleteTimeout = 5 * time.Second
)

// delete ends or detaches the run under way and then lets go of the Replay.
func (r *Reconciler) delete(ctx context.Context, object *v1alpha1.Replay) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(object, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	if err := r.confirm(ctx, object); errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: staleWait}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	pass := r.Status.Begin(object)
	outcome, err := r.part(ctx, pass, object)
	if err != nil || !outcome.IsDone() {
		return pass.Finish(ctx, outcome, err)
	}
	if err := pass.Flush(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("record deletion: %w", err)
	}
	r.progress.forget(object.UID)
	before := object.DeepCopy()
	controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(finalizer.Write(ctx, r.Client, object, before))
}

// part is done when the database knows what is to become of the run, or has been waited for long enough.
func (r *Reconciler) part(ctx context.Context, pass *status.Pass, object *v1alpha1.Replay) (status.Outcome, error) {
	if object.Status.Run.ID == "" || verdict(object) != nil {
		return status.Outcome{}, nil
	}
	dbs, err := r.reachable(ctx, object)
	for i := 0; err == nil && i < len(dbs); i++ {
		err = r.partFrom(ctx, pass, object, dbs[i])
	}
	switch {
	case err == nil:
		return status.Outcome{}, nil
	case ctx.Err() != nil:
		return status.Outcome{}, err
	case r.Now().Sub(object.DeletionTimestamp.Time) >= deleteWithin:
		ctrl.LoggerFrom(ctx).Error(err, "Let go of a Replay whose run could not be ended")
		pass.Warning(v1alpha1.ReasonDatabaseUnreachable, fmt.Sprintf("The Replay was deleted while its database did not "+
			"answer. The run %q moves nothing any more; it is cancelled when the database is back.", object.Status.Run.ID))
		return status.Outcome{}, nil
	default:
		ctrl.LoggerFrom(ctx).Info("The run of a deleted Replay cannot be ended yet", "error", err.Error())
		return status.Wait(retryDelete, v1alpha1.ReasonDatabaseUnreachable,
			"The run cannot be ended: the database does not answer. The Replay is let go of soon all the same."), nil
	}
}

// reachable returns the databases that may hold the run: the Queue's, or every one when the Queue is gone.
func (r *Reconciler) reachable(ctx context.Context, object *v1alpha1.Replay) ([]database, error) {
	queue, err := r.queueOf(ctx, object)
	if err != nil {
		return nil, err
	}
	if queue != nil && queue.Status.Broker.Name != "" {
		db, err := r.Databases.Get(brokerOf(queue))
		if err != nil {
			return nil, err
		}
		return []database{db}, nil
	}
	var all []database
	for _, db := range r.Databases.Connected() {
		all = append(all, db)
	}
	return all, nil
}

// partFrom cancels or detaches what is under way in one database.
func (r *Reconciler) partFrom(ctx context.Context, pass *status.Pass, object *v1alpha1.Replay, db database) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	active, err := db.ActiveRuns(ctx)
	if err != nil {
		return err
	}
	for _, run := range active {
		switch {
		case !isOf(run, object):
		case run.Detached:
		case object.EffectiveOnDelete() == v1alpha1.ReplayDeletionDetach:
			if err := db.DetachRun(ctx, run.ID); err != nil {
				return err
			}
			pass.Normal(eventDetached, fmt.Sprintf("The run %q goes on without the Replay: %s so far.",
				run.Key.RunID, counts(run)))
		default:
			if err := cancelRun(ctx, pass, db, run); err != nil {
				return err
			}
			r.Engine.Forget(run.Key)
		}
	}
	return nil
}

func cancelRun(ctx context.Context, pass *status.Pass, db database, run store.Run) error {
	cancelled, err := db.CancelRun(ctx, run.ID)
	if err != nil {
		return err
	}
	pass.Normal(v1alpha1.ReasonCancelled, fmt.Sprintf("The run %q was cancelled by the deletion of the Replay: %s; "+
		"not replayed: %d.", run.Key.RunID, counts(cancelled), cancelled.Remaining))
	return nil
}
