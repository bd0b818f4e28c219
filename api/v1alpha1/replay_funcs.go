package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a Replay that says nothing runs with.
const (
	DefaultRunID                      = "1"
	DefaultMaxMessages          int32 = 10000
	DefaultMaxReplaysPerMessage int32 = 3

	DefaultCanaryDeadlineSeconds   int32 = 300
	DefaultCanaryMaxRedeathPercent int32 = 0
	DefaultAbortMinSample          int32 = 20
)

// MaxReplayCategories is how many categories a Replay's status holds, the rest included.
const MaxReplayCategories = 32

// MaxReplayGroups is how many fingerprints, and how many versions of consumers, a Replay's status holds.
const MaxReplayGroups = 10

// CategoryOther sums up, in a Replay's status, the categories that do not fit.
const CategoryOther = "OTHER"

// GetConditions returns the conditions in status.
func (r *Replay) GetConditions() []metav1.Condition {
	return r.Status.Conditions
}

// SetConditions replaces the conditions in status.
func (r *Replay) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// EffectiveRunID is `runID` with its default.
func (r *Replay) EffectiveRunID() string {
	return cmp.Or(r.Spec.RunID, DefaultRunID)
}

// EffectiveMode is `mode` with its default.
func (r *Replay) EffectiveMode() ReplayMode {
	return cmp.Or(r.Spec.Mode, ReplayPreview)
}

// EffectiveOnDelete is `onDelete` with its default.
func (r *Replay) EffectiveOnDelete() ReplayDeletionPolicy {
	return cmp.Or(r.Spec.OnDelete, ReplayDeletionCancel)
}

// IsSuspended tells whether `suspend` holds the run back.
func (r *Replay) IsSuspended() bool {
	return r.Spec.Suspend != nil && *r.Spec.Suspend
}

// EffectiveScope is `scope` with its default.
func (s *ReplaySelector) EffectiveScope() ReplayScope {
	return cmp.Or(s.Scope, ReplayScopeMatching)
}

// EffectiveMaxMessages is `maxMessages` with its default.
func (l *ReplayLimits) EffectiveMaxMessages() int32 {
	return cmp.Or(l.MaxMessages, DefaultMaxMessages)
}

// EffectiveMaxReplaysPerMessage is `maxReplaysPerMessage` with its default.
func (l *ReplayLimits) EffectiveMaxReplaysPerMessage() int32 {
	return cmp.Or(l.MaxReplaysPerMessage, DefaultMaxReplaysPerMessage)
}

// EffectiveDeadlineSeconds is `deadlineSeconds` with its default.
func (c *ReplayCanary) EffectiveDeadlineSeconds() int32 {
	return cmp.Or(c.DeadlineSeconds, DefaultCanaryDeadlineSeconds)
}

// EffectiveMaxRedeathPercent is `maxRedeathPercent` with its default.
func (c *ReplayCanary) EffectiveMaxRedeathPercent() int32 {
	if c.MaxRedeathPercent == nil {
		return DefaultCanaryMaxRedeathPercent
	}
	return *c.MaxRedeathPercent
}

// EffectiveMinSample is `minSample` with its default.
func (a *ReplayAbort) EffectiveMinSample() int32 {
	return cmp.Or(a.MinSample, DefaultAbortMinSample)
}

// TargetQueue is the name of the Queue that the messages go to, or empty when that is the one they died in.
func (r *Replay) TargetQueue() string {
	if r.Spec.Target.Type != ReplayTargetQueue {
		return ""
	}
	return r.Spec.Target.QueueRef.Name
}
