package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// urgent are the reasons that need somebody, whatever was before them.
var urgent = []string{
	v1alpha1.ReasonBrokerNotFound, v1alpha1.ReasonCanaryOverdue, v1alpha1.ReasonConflict,
	v1alpha1.ReasonCredentialsRejected, v1alpha1.ReasonDatabaseUnreachable, v1alpha1.ReasonDatabaseUnsupported,
	v1alpha1.ReasonInvalid, v1alpha1.ReasonMigrationFailed, v1alpha1.ReasonNotEmpty, v1alpha1.ReasonQueueNotFound,
	v1alpha1.ReasonRefNotPermitted, v1alpha1.ReasonRolloutFailed, v1alpha1.ReasonRunIDReused,
	v1alpha1.ReasonSchemaTooNew, v1alpha1.ReasonSecretInvalid, v1alpha1.ReasonSecretNotFound,
	v1alpha1.ReasonTargetNotFound,
}

// intended are the reasons for which a condition is not True that somebody has asked for, or that pass by themselves.
var intended = []string{
	v1alpha1.ReasonCanaryRunning, v1alpha1.ReasonDeleting, v1alpha1.ReasonMigrating, v1alpha1.ReasonNotSuspended,
	v1alpha1.ReasonPaused, v1alpha1.ReasonProgressing, v1alpha1.ReasonProvisioning, v1alpha1.ReasonRunning,
	v1alpha1.ReasonScaledToZero, v1alpha1.ReasonSuspended, v1alpha1.ReasonWaitingForGate,
	v1alpha1.ReasonWaitingForPreviousRun,
}

// turn is the type of the Event that a condition's change is worth, or nothing. before is nil for a condition that was
// not there.
//
// A condition that becomes True is Normal, and a loss that was asked for too. A Warning is what needs somebody: that an
// object stalls, that a condition is lost, and a reason that is urgent, when it comes up. What Ready loses is told by
// the condition behind it, if there is one.
func turn(before, after *metav1.Condition) string {
	var was metav1.Condition
	if before != nil {
		was = *before
	}

	turned := was.Status != after.Status

	switch {
	case after.Type == v1alpha1.ConditionReconciling, !turned && was.Reason == after.Reason:
		return ""
	case after.Type == v1alpha1.ConditionStalled:
		return corev1.EventTypeWarning
	case after.Status == metav1.ConditionTrue && turned:
		return corev1.EventTypeNormal
	case after.Status == metav1.ConditionTrue:
		return ""
	case slices.Contains(urgent, after.Reason):
		return corev1.EventTypeWarning
	case was.Status != metav1.ConditionTrue, after.Type == v1alpha1.ConditionReady:
		return ""
	case slices.Contains(intended, after.Reason):
		return corev1.EventTypeNormal
	default:
		return corev1.EventTypeWarning
	}
}
