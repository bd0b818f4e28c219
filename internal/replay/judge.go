package replay

import (
	"fmt"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// verdict is what the outcomes so far mean for a run under way.
type verdict int

const (
	// proceed: more letters may be replayed.
	proceed verdict = iota
	// hold: the canary has not ended, and nothing may follow it.
	hold
	// pass: the canary has ended well.
	pass
	// abort: too many messages have died again.
	abort
)

// judge decides by outcomes how a run goes on. What is not known counts for neither side: a canary whose messages have
// not all ended, or were removed, holds the run and never lets it grow.
func judge(run store.Run) (verdict, string) {
	if reason := tooManyRedeaths(run); reason != "" {
		return abort, reason
	}
	canary := run.Plan.Canary
	if canary.Messages == 0 || run.CanaryPassedAt != nil {
		return proceed, ""
	}
	if run.Redied*100 > int64(canary.MaxRedeathPercent)*int64(canary.Messages) {
		return abort, fmt.Sprintf("%d of the %d canary messages died again, more than %d %%",
			run.Redied, canary.Messages, canary.MaxRedeathPercent)
	}
	switch {
	case run.Replayed < int64(canary.Messages):
		return proceed, ""
	case run.Pending() > 0 || run.Removed > 0:
		return hold, ""
	default:
		return pass, ""
	}
}

func tooManyRedeaths(run store.Run) string {
	rule := run.Plan.Abort
	ended := run.Succeeded + run.Redied
	if rule.RedeathPercent == 0 || ended < max(int64(rule.MinSample), 1) ||
		run.Redied*100 < int64(rule.RedeathPercent)*ended {
		return ""
	}
	return fmt.Sprintf("%d of %d replayed messages that have ended died again, at least %d %%",
		run.Redied, ended, rule.RedeathPercent)
}

// IsHeld reports whether a run waits for the end of its canary, and since when that is overdue: the zero time if it is
// not.
func IsHeld(run store.Run, now time.Time) (held bool, overdue time.Time) {
	if run.State != store.RunRunning || run.CanarySentAt == nil || run.CanaryPassedAt != nil {
		return false, time.Time{}
	}
	deadline := run.CanarySentAt.Add(time.Duration(run.Plan.Canary.DeadlineSeconds) * time.Second)
	if now.After(deadline) {
		overdue = deadline
	}
	return true, overdue
}
