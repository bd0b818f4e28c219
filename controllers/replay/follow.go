package replay

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

// What became of the messages of a run that has ended is looked for the more rarely, the longer ago it ended.
const (
	followFirst = 2 * time.Second
	followLast  = time.Minute
	followShare = 8
)

// followWait is when to look again, after a time.
func followWait(since time.Duration) time.Duration {
	return min(max(since/followShare, followFirst), followLast)
}

// errNoQueue ends the search for a run whose Queue is not there, or not stored.
var errNoQueue = errors.New("the Queue is not there")

// follow keeps the counts of a run that has ended up to date while messages of it have not, and returns when to look
// again, or 0. Whatever stands in its way is no failure of the Replay, whose outcome is known.
func (r *Reconciler) follow(ctx context.Context, object *v1alpha1.Replay) time.Duration {
	if ptr.Deref(object.Status.Counts.Pending, 0) == 0 {
		return 0
	}
	again := followFirst
	if ended := object.Status.Run.CompletionTime; ended != nil {
		again = followWait(r.Now().Sub(ended.Time))
	}
	run, err := r.recorded(ctx, object)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0
	case err != nil:
		ctrl.LoggerFrom(ctx).V(1).Info("The messages of a run that has ended cannot be followed", "reason", err.Error())
		return again
	case run.Pending() == 0:
		r.progress.forget(object.UID)
		mirrorCounts(object, run)
		return 0
	}
	if r.progress.isDue(object, run) {
		mirrorCounts(object, run)
	}
	return again
}

// recorded is the run that status is about, with its counts as they are now.
func (r *Reconciler) recorded(ctx context.Context, object *v1alpha1.Replay) (store.Run, error) {
	queue, err := r.queueOf(ctx, object)
	if err != nil {
		return store.Run{}, err
	}
	if queue == nil || queue.Status.Broker.Name == "" || queue.Status.QueueName == "" {
		return store.Run{}, errNoQueue
	}
	db, err := r.Databases.Get(brokerOf(queue))
	if err != nil {
		return store.Run{}, err
	}
	run, err := db.GetRun(ctx, store.RunKey{
		Queue: queue.Status.QueueName, Namespace: object.Namespace, Name: object.Name, RunID: object.Status.Run.ID,
	}, store.RunMode(object.Status.Run.Mode))
	if err != nil {
		return run, err
	}
	return db.FollowRun(ctx, run.ID)
}
