// Package finalizer writes the finalizers that the reconcilers add and remove.
package finalizer

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/controllers/status"
)

// Write writes what differs between object and before, a copy of it from before its finalizers were changed. It fails
// with a conflict when the object has changed on the API server since it was read; an object that is gone is NotFound.
func Write(ctx context.Context, writer client.Writer, object, before client.Object) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := writer.Patch(ctx, object, patch, status.FieldOwner); err != nil {
		return fmt.Errorf("write finalizers: %w", err)
	}
	return nil
}
