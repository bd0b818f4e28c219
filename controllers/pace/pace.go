// Package pace says how a controller spaces out its work.
package pace

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options lets a controller work on so many objects at once. What failed is tried again after firstRetry, then after
// twice as long each time, up to lastRetry.
func Options(concurrency int, firstRetry, lastRetry time.Duration) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: concurrency,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstRetry, lastRetry),
	}
}
