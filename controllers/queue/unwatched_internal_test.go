package queue

import (
	"testing"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
)

func TestLabelsThatAreNotWatchedAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	refused := status.Stall(v1alpha1.ReasonRefNotPermitted, "It is not admitted.")
	if got := (&Reconciler{}).unwatched(refused); got != refused {
		t.Errorf("with a watch: %+v", got)
	}
	if got := (&Reconciler{Watched: []string{"shop"}}).unwatched(refused); got != refused.Again(labelWait) {
		t.Errorf("without a watch: %+v", got)
	}
}
