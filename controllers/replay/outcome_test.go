package replay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

// A run that its limit cuts short never looks as if nothing were left.
func TestLimitShowsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 20, external)
	object := f.create(func(r *v1alpha1.Replay) {
		r.Spec.Mode = v1alpha1.ReplayPreview
		r.Spec.Selector = v1alpha1.ReplaySelector{Scope: v1alpha1.ReplayScopeAll}
		r.Spec.Limits.MaxMessages = 5
	})
	f.awaitSucceeded(object, v1alpha1.ReasonPreviewReady)
	f.counts(object, 20, 0, 0)
	f.beyondLimit(object, 15, "a run would replay 5 and skip 0, 15 stay dead beyond `limits.maxMessages`")
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Mode = v1alpha1.ReplayExecute })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.counts(object, 20, 5, 0)
	f.beyondLimit(object, 15, "5 of 20 dead letters replayed, 0 skipped, 15 stay dead")
	f.depth(5, 15)
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.RunID, r.Spec.Limits = "2", v1alpha1.ReplayLimits{} })
	f.eventually(func() error {
		f.read(object)
		if object.Status.Run.ID != "2" || object.Status.Run.CompletionTime == nil {
			return errors.New("not there yet")
		}
		return nil
	})
	f.counts(object, 15, 15, 0)
	f.beyondLimit(object, 0, "15 of 15 dead letters replayed, 0 skipped.")
}

// beyondLimit checks what status says the limit left out, and how the outcome words it.
func (f *fixture) beyondLimit(object *v1alpha1.Replay, want int64, words string) {
	f.t.Helper()
	if got := object.Status.Counts.BeyondLimit; got == nil || *got != want {
		f.t.Errorf("beyondLimit is %v, want %d", got, want)
	}
	f.says(object, words)
}

// What the name stands for is a run that moved messages, if there is one; a preview is never worded as a run.
func TestReusedRunIDNamesWhatIsOnRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 10, external)
	preview := func(category string) func(*v1alpha1.Replay) {
		return func(r *v1alpha1.Replay) {
			r.Spec.Mode, r.Spec.Selector.Categories = v1alpha1.ReplayPreview, []string{category}
		}
	}
	object := f.create(preview(external))
	f.awaitSucceeded(object, v1alpha1.ReasonPreviewReady)
	f.remove(object)
	object = f.create(preview("TIMEOUT"))
	f.awaitFailed(object, v1alpha1.ReasonRunIDReused)
	f.says(object, `The preview of run "1" is on record`, "10 dead letters matched", "Nothing was moved")
	f.remove(object)

	object = f.create(preview(external))
	f.edit(object, func(r *v1alpha1.Replay) { r.Spec.Mode = v1alpha1.ReplayExecute })
	f.awaitSucceeded(object, v1alpha1.ReasonCompleted)
	f.remove(object)
	object = f.create(preview("TIMEOUT"))
	f.awaitFailed(object, v1alpha1.ReasonRunIDReused)
	f.says(object, `The run "1" is on record`, "10 of 10 dead letters replayed")
}

// says waits for the words of the outcome: the Queue may be reconciled after the Replay that waits for it.
func (f *fixture) says(object *v1alpha1.Replay, words ...string) {
	f.t.Helper()
	f.eventually(func() error {
		if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		message := apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionSucceeded).Message
		for _, want := range words {
			if !strings.Contains(message, want) {
				return fmt.Errorf("the message is %q, want %q in it", message, want)
			}
		}
		return nil
	})
}

// A queue that is deleted takes its letters along: nothing is said of what became of those that were not replayed.
func TestRunOfDeletedQueueSpeaksOfNoLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Bury(t, orders, 100, external)
	object := f.create(slowly(5))
	f.awaitPending(1)
	owner := store.Owner{Namespace: f.Namespace, Name: orders}
	if err := f.Store.DeleteQueue(t.Context(), orders, owner, false); err != nil {
		t.Fatal(err)
	}
	f.awaitFailed(object, v1alpha1.ReasonCancelled)
	f.says(object, "not replayed:", "what is left of those")
	succeeded := apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionSucceeded)
	if strings.Contains(succeeded.Message, "dead:") {
		t.Error("the outcome counts letters that are gone")
	}
}
