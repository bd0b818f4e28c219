// Package status is the one way in which reconcilers write status. A [Pass] collects what one reconciliation found and
// writes it once, only when it differs, in the form that kstatus and with it every GitOps tool reads: Ready sums up,
// Reconciling and Stalled are there only while they apply and never together, and observedGeneration says which spec
// the status is about. Events follow the write, and only where a condition turned.
package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner owns everything that the operator writes.
const FieldOwner = client.FieldOwner("deadletter-operator")

// conflictDelay gives the cache time to catch up.
const conflictDelay = 200 * time.Millisecond

// Object is a kind with conditions.
type Object interface {
	client.Object

	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
	GetObservedGeneration() int64
	SetObservedGeneration(generation int64)
}

// Writer writes status and records Events.
type Writer struct {
	client   client.StatusClient
	recorder events.EventRecorder
}

// NewWriter returns a Writer.
func NewWriter(statusClient client.StatusClient, recorder events.EventRecorder) *Writer {
	return &Writer{client: statusClient, recorder: recorder}
}

// Pass is one reconciliation of one object. The reconciler changes the object's status in place, conditions by the
// methods of the Pass, and ends with [Pass.Finish].
type Pass struct {
	writer *Writer
	object Object
	base   Object
	events []event
}

// Begin starts a pass over an object as it was read: metadata must not be changed by it any more.
func (w *Writer) Begin(object Object) *Pass {
	return &Pass{writer: w, object: object, base: copyOf(object)}
}

func copyOf(object Object) Object {
	return object.DeepCopyObject().(Object) //nolint:forcetypeassert // a copy has the type of its original
}

// Finish sums up the pass, writes the status if it differs, records the Events, and says when to look again. A failure
// that may pass is shown in status and handed back for the work queue to space out its repetition.
func (p *Pass) Finish(ctx context.Context, outcome Outcome, err error) (ctrl.Result, error) {
	if isInterruption(err) {
		return ctrl.Result{}, err
	}

	if err != nil {
		outcome = Wait(0, "", "")
		outcome.reason, outcome.message = explain(err)
	}

	p.object.SetObservedGeneration(p.object.GetGeneration())
	p.summarise(outcome)

	written := p.Flush(ctx)
	if apierrors.IsConflict(written) {
		// What was found is about an object that has changed since.
		if err == nil {
			return ctrl.Result{RequeueAfter: conflictDelay}, nil
		}

		written = nil
	}

	if err := errors.Join(err, written); err != nil {
		return ctrl.Result{}, err
	}

	return ctrl.Result{RequeueAfter: outcome.after}, nil
}

// isInterruption reports errors that say nothing about the object: a write that lost a race, and the end of the
// process.
func isInterruption(err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, context.Canceled)
}

// Flush writes what the pass has found so far. A reconciler calls it before a step that takes long.
func (p *Pass) Flush(ctx context.Context) error {
	difference, err := client.MergeFrom(p.base).Data(p.object)
	if err != nil {
		return fmt.Errorf("compare status: %w", err)
	}

	if string(difference) != "{}" {
		found := copyOf(p.object)

		// The cache may lag behind our own last write; the lock keeps a pass over the past from undoing the present.
		patch := client.MergeFromWithOptions(p.base, client.MergeFromWithOptimisticLock{})
		if err := p.writer.client.Status().Patch(ctx, p.object, patch, FieldOwner); err != nil {
			// The object may be gone: then nobody is left to read its status.
			return client.IgnoreNotFound(err)
		}

		p.record(found)
		p.base = copyOf(p.object)
	}

	p.emit()

	return nil
}
