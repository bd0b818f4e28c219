package pace

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictDelay gives the cache time to catch up.
const conflictDelay = 200 * time.Millisecond

// Calm tries again soon, and without an error in the log, when a write has lost a race: the object has changed since it
// was read, and that is all there is to say.
func Calm(reconciler reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := reconciler.Reconcile(ctx, request)
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: conflictDelay}, nil
		}
		return result, err //nolint:wrapcheck // the reconciler's own error
	})
}
