package replay

import (
	"context"
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

// hold shows what a run waits for.
func hold(pass *status.Pass, outcome status.Outcome) status.Outcome {
	pass.Unknown(v1alpha1.ConditionSucceeded, outcome.Reason(), outcome.Message())
	return outcome
}

// succeed shows how a run ended well.
func succeed(pass *status.Pass, reason, message string) status.Outcome {
	pass.True(v1alpha1.ConditionSucceeded, reason, message)
	return status.Done(reason, message)
}

// fail shows how a run ended, or why it never begins, until somebody changes the Replay.
func fail(pass *status.Pass, reason, message string) status.Outcome {
	pass.False(v1alpha1.ConditionSucceeded, reason, message)
	return status.Stall(reason, message)
}

// conclude shows the end of a run. own tells whether this object asked for it, or has only met its record.
func conclude(pass *status.Pass, run store.Run, own bool) status.Outcome {
	outcome := verdictOf(pass, run, own)
	if run.Pending() > 0 {
		return outcome.Again(followWait(0))
	}
	return outcome
}

func verdictOf(pass *status.Pass, run store.Run, own bool) status.Outcome {
	switch {
	case run.State == store.RunAborted:
		return fail(pass, v1alpha1.ReasonAborted, aborted(run))
	case run.State == store.RunCancelled:
		return fail(pass, v1alpha1.ReasonCancelled, fmt.Sprintf("The run %q was cancelled: %s; not replayed: %d. "+
			"To replay what is left of those, change `runID`.", run.Key.RunID, counts(run), run.Remaining))
	case run.Mode == store.RunPreview:
		return succeed(pass, v1alpha1.ReasonPreviewReady, forecast(run)+". Nothing was moved.")
	case !own:
		return succeed(pass, v1alpha1.ReasonAlreadyExecuted, fmt.Sprintf("The run %q took place before this object was "+
			"created: %s. Nothing was moved again; to run again, change `runID`.", run.Key.RunID, counts(run)))
	case run.Matched == 0:
		return succeed(pass, v1alpha1.ReasonNothingMatched, "No dead letter matched the selector.")
	default:
		message := fmt.Sprintf("The run %q is over: %s.", run.Key.RunID, counts(run))
		if run.BeyondLimit > 0 {
			message += " To replay more, change `runID`."
		}
		return succeed(pass, v1alpha1.ReasonCompleted, message)
	}
}

func counts(run store.Run) string {
	failed := ""
	if run.Failed > 0 {
		failed = fmt.Sprintf(", %d failed and stay dead", run.Failed)
	}
	return fmt.Sprintf("%d of %s replayed, %d skipped%s%s", run.Replayed, letters(run.Matched), run.Skipped, failed,
		beyond(run))
}

// aborted says why a run ended itself, and what to do.
func aborted(run store.Run) string {
	return fmt.Sprintf("The run %q was aborted: %s. It is over: %s; not replayed: %d. Find the cause first; to replay "+
		"what is left, change `runID`.", run.Key.RunID, run.AbortReason, counts(run), run.Remaining)
}

// forecast says what a preview found.
func forecast(run store.Run) string {
	return fmt.Sprintf("%s matched: a run would replay %d and skip %d%s", letters(run.Matched),
		run.Matched-run.Skipped-run.BeyondLimit, run.Skipped, beyond(run))
}

// beyond continues a count with what the limit left out, which must never look as if it had not been there.
func beyond(run store.Run) string {
	if run.BeyondLimit == 0 {
		return ""
	}
	return fmt.Sprintf(", %d stay dead beyond `limits.maxMessages`", run.BeyondLimit)
}

func letters(count int64) string {
	if count == 1 {
		return "1 dead letter"
	}
	return fmt.Sprintf("%d dead letters", count)
}

// verdict is the outcome that status records of the run it is about, if that run has ended.
func verdict(object *v1alpha1.Replay) *metav1.Condition {
	succeeded := apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionSucceeded)
	if succeeded == nil || succeeded.Status == metav1.ConditionUnknown {
		return nil
	}
	return succeeded
}

// repeat shows a recorded verdict for the present generation, whose changes do not concern a run that has ended.
func repeat(pass *status.Pass, recorded metav1.Condition) status.Outcome {
	pass.True(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "The spec is valid.")
	resume(pass)
	if recorded.Status == metav1.ConditionTrue {
		return succeed(pass, recorded.Reason, recorded.Message)
	}
	return fail(pass, recorded.Reason, recorded.Message)
}

// resume shows that nothing holds the run back.
func resume(pass *status.Pass) {
	pass.False(v1alpha1.ConditionSuspended, v1alpha1.ReasonNotSuspended, "Nothing holds the run back.")
}

// databaseError says what status may say of a failure in the database.
func databaseError(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case store.IsUnavailable(err):
		return status.Retry(v1alpha1.ReasonDatabaseUnreachable,
			"The database does not answer; nothing is lost, and it is tried again.", err)
	default:
		return status.Retry(v1alpha1.ReasonRetrying,
			"The database refused to "+doing+"; nothing is lost, and it is tried again.", err)
	}
}
