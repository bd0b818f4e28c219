package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

// detachedWait is how often a detached run is looked at that a new one waits for.
const detachedWait = 5 * time.Second

// queueWait is how often to look for a queue that the database does not know, until its Queue is stored again.
const queueWait = 2 * time.Second

// work is one pass over a Replay whose Queue and database are there.
type work struct {
	*Reconciler

	pass   *status.Pass
	object *v1alpha1.Replay
	db     database
	spec   store.RunSpec
}

// do finds or starts the run, and takes it further.
func (w *work) do(ctx context.Context) (status.Outcome, error) {
	own := isAbout(w.object, w.spec)
	if !own {
		if err := w.confirm(ctx, w.object); err != nil {
			return status.Outcome{}, err
		}
	}
	if !own && !w.object.IsSuspended() {
		if outcome, err := w.settlePrevious(ctx); err != nil || !outcome.IsDone() {
			return outcome, err
		}
	}
	run, err := w.db.GetRun(ctx, w.spec.Key, w.spec.Mode)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return w.start(ctx)
	case err != nil:
		return status.Outcome{}, databaseError("read the run", err)
	default:
		return w.meet(ctx, run, own)
	}
}

// start has the selection frozen. Status says so first: whoever finds the run later, after a crash, knows from it that
// this object asked for the run.
func (w *work) start(ctx context.Context) (status.Outcome, error) {
	if w.object.IsSuspended() {
		return w.suspended(), nil
	}
	if outcome, err := w.gate(ctx); err != nil || !outcome.IsDone() {
		return outcome, err
	}
	announce(w.object, w.spec)
	outcome := hold(w.pass, status.Wait(atOnce, v1alpha1.ReasonProgressing, "The run is being started."))
	if err := w.pass.Flush(ctx); err != nil {
		return outcome, fmt.Errorf("announce run: %w", err)
	}
	run, created, err := w.db.StartRun(ctx, w.spec)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return hold(w.pass, status.Wait(queueWait, v1alpha1.ReasonQueueNotReady,
			"The database does not know the queue yet.")), nil
	case err != nil:
		return outcome, databaseError("start the run", err)
	}
	if created && run.State == store.RunRunning {
		w.pass.Normal(eventStarted, fmt.Sprintf("The run %q started with %s%s.", run.Key.RunID, letters(run.Remaining),
			beyond(run)))
	}
	return w.meet(ctx, run, true)
}

// meet deals with a run that is there.
func (w *work) meet(ctx context.Context, run store.Run, own bool) (status.Outcome, error) {
	if run.Hash != w.spec.Hash {
		return w.reused(ctx, run)
	}
	if run.State != store.RunRunning {
		w.forget()
		mirror(w.object, run)
		return conclude(w.pass, run, own), nil
	}
	if !own {
		w.pass.Normal(eventAdopted, fmt.Sprintf("The run %q was under way and goes on under this object: %s.",
			run.Key.RunID, counts(run)))
		mirror(w.object, run)
	}
	if run.Detached {
		if err := w.db.AttachRun(ctx, run.ID); err != nil {
			return status.Outcome{}, databaseError("attach the run", err)
		}
	}
	if rate := w.spec.MessagesPerSecond; rate != run.MessagesPerSecond {
		if err := w.db.SetRunRate(ctx, run.ID, rate); err != nil {
			return status.Outcome{}, databaseError("change the rate of the run", err)
		}
		run.MessagesPerSecond = rate
	}
	if w.object.IsSuspended() {
		return w.pause(ctx, run)
	}
	return w.step(ctx, run, v1alpha1.ReasonRunning, "The run is under way; `status.counts` tells how far it is.")
}

func (w *work) suspended() status.Outcome {
	return hold(w.pass, status.Wait(0, v1alpha1.ReasonSuspended, "The run is held back until `suspend` is false."))
}

// pause keeps a run from going on, and its counts up to date.
func (w *work) pause(ctx context.Context, run store.Run) (status.Outcome, error) {
	w.Engine.Forget(run.Key)
	if run.Pending() > 0 {
		after, err := w.db.FollowRun(ctx, run.ID)
		if err != nil {
			return status.Outcome{}, databaseError("follow the run", err)
		}
		run = after
	}
	mirror(w.object, run)
	outcome := w.suspended()
	if since := apimeta.FindStatusCondition(w.object.Status.Conditions, v1alpha1.ConditionSuspended); run.Pending() > 0 &&
		since != nil {
		outcome = outcome.Again(followWait(w.Now().Sub(since.LastTransitionTime.Time)))
	}
	return outcome, nil
}

// step moves letters for a while.
func (w *work) step(ctx context.Context, run store.Run, reason, message string) (status.Outcome, error) {
	had := run.CanaryPassedAt
	run, wait, err := w.Engine.Step(ctx, w.db, run, stepBudget)
	if had == nil && run.CanaryPassedAt != nil {
		w.pass.Normal(eventCanaryPassed, canaryPassed(run))
	}
	if run.State != store.RunRunning {
		return w.ended(run, reason, message), nil
	}
	if err != nil || w.progress.isDue(w.object, run) || w.turnsOverdue(run) {
		mirror(w.object, run)
	}
	if errors.Is(err, store.ErrNoTargetQueue) {
		return hold(w.pass, status.Wait(queueWait, v1alpha1.ReasonTargetNotReady,
			"The database does not know the target's queue yet.")), nil
	}
	if own := run.Key == w.spec.Key; isCanary(run) && own {
		reason, message = canary(w.object, run, w.Now())
	} else if isCanary(run) {
		message += " It waits for its canary."
	}
	return hold(w.pass, status.Wait(max(wait, atOnce), reason, message)), databaseError("move a batch", err)
}

// ended shows the end of a run that was stepped; one that another one waited for is told as an Event.
func (w *work) ended(run store.Run, reason, message string) status.Outcome {
	w.forget()
	mirror(w.object, run)
	if run.Key == w.spec.Key {
		return conclude(w.pass, run, true)
	}
	if run.State == store.RunAborted {
		w.pass.Warning(v1alpha1.ReasonAborted, aborted(run))
	} else {
		w.pass.Normal(v1alpha1.ReasonCompleted, fmt.Sprintf("The run %q is over: %s.", run.Key.RunID, counts(run)))
	}
	return hold(w.pass, status.Wait(atOnce, reason, message))
}

func (w *work) forget() { w.progress.forget(w.object.UID) }

// reused refuses to run something else under the name of a run on record. If that run is still under way, the object
// that asked for it has gone without cancelling it, and it is cancelled now.
func (w *work) reused(ctx context.Context, run store.Run) (status.Outcome, error) {
	if run.State == store.RunRunning && !run.Detached {
		cancelled, err := w.cancelLeftover(ctx, run)
		if err != nil {
			return status.Outcome{}, err
		}
		run = cancelled
	}
	record, err := w.record(ctx, run)
	if err != nil {
		return status.Outcome{}, err
	}
	mirror(w.object, run)
	return fail(w.pass, v1alpha1.ReasonRunIDReused, record+" Change `runID` to run this one."), nil
}

// record words what a runID in use stands for: of a preview and a run of one runID, the run, which moved messages.
func (w *work) record(ctx context.Context, run store.Run) (string, error) {
	if run.Mode == store.RunPreview {
		executed, err := w.db.GetRun(ctx, run.Key, store.RunExecute)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return fmt.Sprintf("The preview of run %q is on record with another selector or other limits: %s. "+
				"Nothing was moved.", run.Key.RunID, forecast(run)), nil
		case err != nil:
			return "", databaseError("read the run", err)
		}
		run = executed
	}
	return fmt.Sprintf("The run %q is on record with another selector or other limits: %s.",
		run.Key.RunID, counts(run)), nil
}

// settlePrevious is done when no other run of this Replay's name is under way. One that this object asked for goes on
// to its end first; one that was detached does so by itself; any other was left over by an object of this name.
func (w *work) settlePrevious(ctx context.Context) (status.Outcome, error) {
	active, err := w.db.ActiveRuns(ctx)
	if err != nil {
		return status.Outcome{}, databaseError("list active runs", err)
	}
	for _, run := range active {
		if !isOf(run, w.object) || run.Key == w.spec.Key && run.Mode == w.spec.Mode {
			continue
		}
		message := fmt.Sprintf("The run %q of this Replay is under way; %q starts when it is over.",
			run.Key.RunID, w.spec.Key.RunID)
		switch {
		case run.Detached:
			return hold(w.pass, status.Wait(detachedWait, v1alpha1.ReasonWaitingForPreviousRun, message)), nil
		case w.object.Status.Run.ID == run.Key.RunID && w.object.Status.Run.Mode == v1alpha1.ReplayMode(run.Mode):
			return w.step(ctx, run, v1alpha1.ReasonWaitingForPreviousRun, message)
		default:
			if _, err := w.cancelLeftover(ctx, run); err != nil {
				return status.Outcome{}, err
			}
		}
	}
	return status.Outcome{}, nil
}

// isOf tells whether a run belongs to a Replay's namespace and name.
func isOf(run store.Run, object *v1alpha1.Replay) bool {
	return run.Key.Namespace == object.Namespace && run.Key.Name == object.Name
}

func (w *work) cancelLeftover(ctx context.Context, run store.Run) (store.Run, error) {
	cancelled, err := w.db.CancelRun(ctx, run.ID)
	if err != nil {
		return run, databaseError("cancel a run that was left over", err)
	}
	w.pass.Normal(v1alpha1.ReasonCancelled, fmt.Sprintf("The run %q, left over by a deleted object of this name, was "+
		"cancelled: %s.", run.Key.RunID, counts(cancelled)))
	return cancelled, nil
}
