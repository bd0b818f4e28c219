package pace_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"deadletter.dev/deadletter/controllers/pace"
)

func TestConflictsAreTriedAgainWithoutAnError(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "queues"}, "orders", errors.New("modified"))
	broken := errors.New("broken")
	for name, test := range map[string]struct{ err, want error }{
		"conflict":         {err: conflict},
		"wrapped conflict": {err: fmt.Errorf("write finalizers: %w", conflict)},
		"another failure":  {err: broken, want: broken},
		"none":             {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, test.err
			})
			result, err := pace.Calm(reconciler).Reconcile(t.Context(), reconcile.Request{})
			if !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("error is %v", err)
			}
			if again := test.err != nil && test.want == nil; (result.RequeueAfter > 0) != again {
				t.Errorf("looks again after %v", result.RequeueAfter)
			}
		})
	}
}
