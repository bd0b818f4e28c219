package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/finalizer"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

const (
	// undeclareTimeout bounds what a release that must not depend on the database spends on it.
	undeclareTimeout = 2 * time.Second
	// deleteBudget is how long one pass deletes messages before it shows how far it came.
	deleteBudget = 5 * time.Second
	// retryDelete is how often an unreachable database and a queue that must become empty are looked at.
	retryDelete = 5 * time.Second
	// closedFor is how long a queue that is being deleted takes no messages after the last attempt: a deletion that is
	// given up while the database is down must not leave it closed.
	closedFor = time.Minute
)

// delete carries out the deletion policy and then lets go of the Queue.
func (r *Reconciler) delete(ctx context.Context, queue *v1alpha1.Queue) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(queue, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	pass := r.Status.Begin(queue)
	outcome, err := r.dispose(ctx, pass, queue)
	if err != nil || !outcome.IsDone() {
		return pass.Finish(ctx, outcome, err)
	}
	if err := pass.Flush(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("record deletion: %w", err)
	}
	before := queue.DeepCopy()
	controllerutil.RemoveFinalizer(queue, v1alpha1.Finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(finalizer.Write(ctx, r.Client, queue, before))
}

// dispose is done when nothing holds the Queue any more. A Queue deletes only what is its own: one that was never
// stored, lost a conflict or is no longer admitted has no messages to delete.
func (r *Reconciler) dispose(ctx context.Context, pass *status.Pass, queue *v1alpha1.Queue) (status.Outcome, error) {
	bound := boundBroker(queue)
	if bound.Name == "" {
		return status.Outcome{}, nil
	}
	if queue.EffectiveDeletionPolicy() == v1alpha1.QueueDeletionRetain {
		r.undeclare(ctx, queue, bound)
		pass.Normal(v1alpha1.ReasonReleased, "The Queue was deleted; its messages were kept.")
		return status.Outcome{}, nil
	}
	name, broker, refused, err := r.place(ctx, queue)
	switch {
	case err != nil:
		return status.Outcome{}, err
	case refused != nil:
		return abandon(pass, refused.message), nil
	}
	db, err := r.Databases.Get(client.ObjectKeyFromObject(broker))
	if err != nil {
		return r.unreachable(ctx, pass, queue, broker)
	}
	return r.erase(ctx, pass, queue, db, broker, name)
}

// undeclare tells the database that nobody declares the queue any more. That is a courtesy: a Queue of the same name
// takes the queue up again whether the database was told or not.
func (r *Reconciler) undeclare(ctx context.Context, queue *v1alpha1.Queue, bound types.NamespacedName) {
	db, err := r.Databases.Get(bound)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, undeclareTimeout)
	defer cancel()
	if err := db.UndeclareQueue(ctx, queue.Status.QueueName, owner(queue)); err != nil {
		ctrl.LoggerFrom(ctx).Info("The database was not told of a deleted Queue", "error", err.Error())
	}
}

// abandon lets go of a Queue whose messages it cannot delete.
func abandon(pass *status.Pass, why string) status.Outcome {
	pass.Warning(v1alpha1.ReasonReleased, "The Queue was deleted, and messages it may have had were kept. "+why)
	return status.Outcome{}
}

// unreachable waits for the database: letting go would leave messages behind that were to be deleted. Where nobody can
// edit the Queue any more to say otherwise, or the Broker is on its way out, it lets go.
func (r *Reconciler) unreachable(
	ctx context.Context, pass *status.Pass, queue *v1alpha1.Queue, broker *v1alpha1.Broker,
) (status.Outcome, error) {
	if !broker.DeletionTimestamp.IsZero() {
		return abandon(pass, fmt.Sprintf("Its Broker %q is being deleted too, and has no database.", broker.Name)), nil
	}
	terminating, err := r.isTerminating(ctx, queue.Namespace)
	if err != nil {
		return status.Outcome{}, err
	}
	if terminating {
		return abandon(pass, fmt.Sprintf("Its namespace is being deleted, and the database of Broker %q does not answer.",
			broker.Name)), nil
	}
	message := fmt.Sprintf("The messages cannot be deleted: the database of Broker %q does not answer. To delete the "+
		"Queue and keep its messages, set `deletionPolicy` to 'Retain'.", broker.Name)
	return status.Wait(retryDelete, v1alpha1.ReasonDatabaseUnreachable, message), nil
}

func (r *Reconciler) isTerminating(ctx context.Context, namespace string) (bool, error) {
	object := namespaceMetadata()
	err := r.Namespaces.Get(ctx, client.ObjectKey{Name: namespace}, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	return !object.DeletionTimestamp.IsZero(), nil
}

// erase deletes the queue from the database. It takes no new messages from the first attempt on: it would never become
// empty, and a message that is accepted just before the end would be lost.
func (r *Reconciler) erase(
	ctx context.Context, pass *status.Pass, queue *v1alpha1.Queue, db *store.Store, broker *v1alpha1.Broker, name string,
) (status.Outcome, error) {
	onlyIfEmpty := queue.EffectiveDeletionPolicy() == v1alpha1.QueueDeletionDeleteIfEmpty
	bounded, cancel := context.WithTimeout(ctx, deleteBudget)
	defer cancel()
	err := db.CloseQueue(bounded, name, owner(queue), closedFor)
	if err == nil {
		err = db.DeleteQueue(bounded, name, owner(queue), onlyIfEmpty)
	}
	switch {
	case err == nil:
		pass.Normal(v1alpha1.ReasonDeleted, "The Queue was deleted with all its messages.")
		return status.Outcome{}, nil
	case ctx.Err() != nil:
		return status.Outcome{}, ctx.Err()
	case errors.Is(err, store.ErrNotOwner):
		return abandon(pass, "Another Queue declares them now."), nil
	case errors.Is(err, store.ErrQueueNotEmpty):
		return r.notEmpty(ctx, db, name), nil
	case bounded.Err() != nil && db.Ping(ctx) == nil:
		return r.erasing(ctx, db, name), nil
	case store.IsUnavailable(err):
		return r.unreachable(ctx, pass, queue, broker)
	default:
		return status.Outcome{}, status.Retry(v1alpha1.ReasonRetrying,
			fmt.Sprintf("The database of Broker %q refused to delete the queue.", broker.Name), err)
	}
}

// notEmpty says what the queue still holds.
func (r *Reconciler) notEmpty(ctx context.Context, db *store.Store, name string) status.Outcome {
	held := "messages"
	if info, err := db.Queue(ctx, name); err == nil {
		held = fmt.Sprintf("%d pending, %d claimed and %d dead messages",
			info.Depth.Pending, info.Depth.Processing, info.Depth.Dead)
	}
	return status.Wait(retryDelete, v1alpha1.ReasonNotEmpty, fmt.Sprintf("The queue holds %s, and `deletionPolicy` is "+
		"'DeleteIfEmpty'. Let the workers finish, or set `deletionPolicy` to 'Retain' or 'Delete'.", held))
}

func (r *Reconciler) erasing(ctx context.Context, db *store.Store, name string) status.Outcome {
	message := "The messages are being deleted."
	if info, err := db.Queue(ctx, name); err == nil {
		depth := info.Depth
		message = fmt.Sprintf("The messages are being deleted; %d are left.",
			depth.Pending+depth.Processing+depth.Succeeded+depth.Dead)
	}
	return status.Wait(time.Millisecond, v1alpha1.ReasonDeleting, message)
}
