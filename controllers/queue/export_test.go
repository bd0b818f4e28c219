package queue

import "deadletter.dev/deadletter/api/v1alpha1"

// What the tests of this package look at from outside.
var (
	Candidates    = candidates
	Compare       = compare
	Settings      = settings
	NewReconciler = newReconciler
	NewDepths     = newDepths
	Refresh       = (*depths).refresh
)

// Degrees of change.
const (
	None  = none
	Small = small
	Large = large
)

// Validate returns the canonical name and what is wrong with a Queue.
func Validate(queue *v1alpha1.Queue) (name, wrong string) {
	name, refused := validate(queue)
	if refused != nil {
		return "", refused.message
	}
	return name, ""
}
