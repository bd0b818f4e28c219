package replay

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"deadletter.dev/deadletter/internal/store"
)

// What the tests of this package look at from outside.
var (
	NewReconciler = newReconciler
	NewOrphans    = newOrphans
	NewProgress   = newProgress
	IsDue         = (*progress).isDue
	Categories    = categories
	Validate      = validate
	RunSpec       = runSpec
	FollowWait    = followWait
	Closed        = closed
	Mirror        = mirror
)

// Look has orphans look at one Broker, and waits for what it drives.
func Look(ctx context.Context, o *orphans, broker types.NamespacedName, db *store.Store) error {
	var drivers sync.WaitGroup
	defer drivers.Wait()
	return o.look(ctx, broker, db, &drivers)
}
