package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Reasons of the Events of a deletion.
const (
	reasonSchemaDropped = "SchemaDropped"
	reasonSchemaKept    = "SchemaKept"
)

const dropPoll = 10 * time.Second

// finalize does what a deleted Broker asks for and lets it go.
func (r *Reconciler) finalize(ctx context.Context, broker *v1alpha1.Broker) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(broker, v1alpha1.Finalizer) {
		r.forget(client.ObjectKeyFromObject(broker))

		return ctrl.Result{}, nil
	}

	pass := r.Status.Begin(broker)

	// Retain is the way out of a deletion that waits: it takes effect here too.
	if !broker.IsManaged() && broker.EffectiveDeletionPolicy() == v1alpha1.BrokerDeletionDelete {
		outcome, err := r.drop(ctx, &work{broker: broker, pass: pass})
		if err != nil || !outcome.IsDone() {
			return pass.Finish(ctx, outcome, err)
		}

		// Tells of the drop, before the object that it is about is gone.
		if err := pass.Flush(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}

	r.forget(client.ObjectKeyFromObject(broker))

	before := broker.DeepCopy()
	controllerutil.RemoveFinalizer(broker, v1alpha1.Finalizer)

	return ctrl.Result{}, client.IgnoreNotFound(finalizer.Write(ctx, r.Client, broker, before))
}

// drop removes the schema. What makes that impossible for good ends it with a Warning; a database that does not answer
// is waited for, but not for ever, so that no namespace hangs on it.
func (r *Reconciler) drop(ctx context.Context, w *work) (status.Outcome, error) {
	if w.broker.Status.SchemaVersion == 0 {
		// Never drop what this Broker never had.
		return status.Outcome{}, nil
	}

	url, identity, why, err := r.lookup(ctx, w.broker)
	if err != nil {
		return status.Outcome{}, err
	}

	if why != nil {
		return r.waitOrKeep(ctx, w, why.message)
	}

	if holder := r.claims.take(w.broker, identity); holder != nil {
		return w.keep("It belongs to another Broker."), nil
	}

	// Nobody works on a schema that goes.
	r.Databases.Forget(w.key())

	api := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.broker.Namespace, Name: apiName(w.broker)}}
	if err := r.remove(ctx, w.broker, api); err != nil {
		return status.Outcome{}, err
	}

	config := databases.Config{URL: url, Schema: w.broker.EffectiveSchema()}

	dropped, err := r.Databases.DropSchema(ctx, w.key(), config)
	if err != nil {
		return r.dropFailed(ctx, w, err)
	}

	if dropped {
		w.pass.Normal(reasonSchemaDropped, fmt.Sprintf("Schema %q was dropped with all messages in it.", config.Schema))
	}

	return status.Outcome{}, nil
}

func (r *Reconciler) dropFailed(ctx context.Context, w *work, err error) (status.Outcome, error) {
	fault, text := store.Diagnose(err)

	switch {
	case errors.Is(err, context.Canceled):
		return status.Outcome{}, err
	case errors.Is(err, store.ErrForeignSchema), errors.Is(err, store.ErrSchema):
		return w.keep(fmt.Sprintf("It was refused: %s.", err)), nil
	case fault == store.FaultPrivilege:
		return w.keep("The user does not own it."), nil
	default:
		ctrl.LoggerFrom(ctx).Info("The schema could not be dropped", "cause", err.Error())

		return r.waitOrKeep(ctx, w, fmt.Sprintf("The database cannot be used: %s.", text))
	}
}

// waitOrKeep goes on waiting while there is hope: not in a namespace that is being deleted and has lost the Secret, and
// not longer than deletionTimeout.
func (r *Reconciler) waitOrKeep(ctx context.Context, w *work, obstacle string) (status.Outcome, error) {
	deadline := w.broker.DeletionTimestamp.Add(deletionTimeout)
	if !r.Clock.Now().Before(deadline) {
		return w.keep(obstacle), nil
	}

	ending, err := r.isTerminating(ctx, w.broker.Namespace)
	if err != nil {
		return status.Outcome{}, err
	}

	if ending {
		return w.keep(obstacle), nil
	}

	return status.Wait(dropPoll, v1alpha1.ReasonDeleting, fmt.Sprintf(
		"%s Schema %q is left as it is if that does not change until %s; setting `deletionPolicy` to 'Retain' leaves it now.",
		obstacle, w.broker.EffectiveSchema(), deadline.UTC().Format(time.RFC3339))), nil
}

// keep gives up on dropping the schema.
func (w *work) keep(why string) status.Outcome {
	w.pass.Warning(reasonSchemaKept, fmt.Sprintf("Schema %q was not dropped. %s", w.broker.EffectiveSchema(), why))

	return status.Outcome{}
}

func (r *Reconciler) isTerminating(ctx context.Context, name string) (bool, error) {
	var namespace corev1.Namespace

	err := r.Reader.Get(ctx, types.NamespacedName{Name: name}, &namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}

	if err != nil {
		return false, fmt.Errorf("read namespace %s: %w", name, err)
	}

	return !namespace.DeletionTimestamp.IsZero(), nil
}
