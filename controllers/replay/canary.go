package replay

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

// isCanary tells whether a run is no further than its canary.
func isCanary(run store.Run) bool { return run.Plan.Canary.Messages > 0 && run.CanaryPassedAt == nil }

// canary says what a run that is no further than its canary waits for. The figures are those in status, so that they
// change no more often than those do.
func canary(object *v1alpha1.Replay, run store.Run, now time.Time) (reason, message string) {
	messages := run.Plan.Canary.Messages
	if _, overdue := replay.IsHeld(run, now); overdue.IsZero() {
		return v1alpha1.ReasonCanaryRunning, fmt.Sprintf("The canary, up to %d messages, goes first; the rest follows when "+
			"all of them have ended well.", messages)
	}
	shown := object.Status.Counts
	message = fmt.Sprintf("The end of %d of %d canary messages is not known %d s after they went back to work: %d "+
		"succeeded, %d died again.", ptr.Deref(shown.Pending, 0), ptr.Deref(shown.Replayed, 0),
		run.Plan.Canary.DeadlineSeconds, ptr.Deref(shown.Succeeded, 0), ptr.Deref(shown.Redied, 0))
	if removed := ptr.Deref(shown.Removed, 0); removed > 0 {
		return v1alpha1.ReasonCanaryOverdue, message + fmt.Sprintf(" %d were removed, as by a purge, so that it never "+
			"will be: nothing more is replayed. Delete the Replay, which cancels the run, and change `runID`.", removed)
	}
	return v1alpha1.ReasonCanaryOverdue, message + " Nothing more is replayed before they have ended: look at the " +
		"workers, or delete the Replay, which cancels the run."
}

// turnsOverdue tells whether status does not say yet that the canary of a run is overdue.
func (w *work) turnsOverdue(run store.Run) bool {
	_, overdue := replay.IsHeld(run, w.Now())
	shown := apimeta.FindStatusCondition(w.object.Status.Conditions, v1alpha1.ConditionSucceeded)
	return !overdue.IsZero() && (shown == nil || shown.Reason != v1alpha1.ReasonCanaryOverdue)
}

// canaryPassed says how the canary of a run ended.
func canaryPassed(run store.Run) string {
	return fmt.Sprintf("The canary of run %q has ended well: %d messages succeeded, %d died again. The rest follows.",
		run.Key.RunID, run.Succeeded, run.Redied)
}
