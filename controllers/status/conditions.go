package status

import (
	"unicode/utf8"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// messageLimit keeps objects small; the API allows 32768 bytes.
const messageLimit = 1024

// Set sets a condition for the generation that this pass looks at.
func (p *Pass) Set(conditionType string, status metav1.ConditionStatus, reason, message string) {
	conditions := p.object.GetConditions()
	apimeta.SetStatusCondition(&conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             reason,
		Message:            truncate(message),
		ObservedGeneration: p.object.GetGeneration(),
	})
	p.object.SetConditions(conditions)
}

// True sets a condition to True.
func (p *Pass) True(conditionType, reason, message string) {
	p.Set(conditionType, metav1.ConditionTrue, reason, message)
}

// False sets a condition to False.
func (p *Pass) False(conditionType, reason, message string) {
	p.Set(conditionType, metav1.ConditionFalse, reason, message)
}

// Unknown sets a condition to Unknown.
func (p *Pass) Unknown(conditionType, reason, message string) {
	p.Set(conditionType, metav1.ConditionUnknown, reason, message)
}

// Introduce makes conditions that are not there yet Unknown, so that every condition of a kind is there from the first
// pass on.
func (p *Pass) Introduce(conditionTypes ...string) {
	for _, conditionType := range conditionTypes {
		if apimeta.FindStatusCondition(p.object.GetConditions(), conditionType) == nil {
			p.Unknown(conditionType, v1alpha1.ReasonPending, "Not known yet.")
		}
	}
}

func (p *Pass) remove(conditionType string) {
	conditions := p.object.GetConditions()
	apimeta.RemoveStatusCondition(&conditions, conditionType)
	p.object.SetConditions(conditions)
}

// summarise sets Ready, Reconciling and Stalled, of which the latter two are there only while they apply.
func (p *Pass) summarise(outcome Outcome) {
	reason, message := outcome.reason, outcome.message

	switch outcome.verdict {
	case done:
		if reason == "" {
			reason = v1alpha1.ReasonReady
		}

		p.True(v1alpha1.ConditionReady, reason, message)
		p.remove(v1alpha1.ConditionReconciling)
		p.remove(v1alpha1.ConditionStalled)
	case waiting:
		p.False(v1alpha1.ConditionReady, reason, message)
		p.True(v1alpha1.ConditionReconciling, reason, message)
		p.remove(v1alpha1.ConditionStalled)
	case stalled:
		p.False(v1alpha1.ConditionReady, reason, message)
		p.True(v1alpha1.ConditionStalled, reason, message)
		p.remove(v1alpha1.ConditionReconciling)
	}
}

// truncate cuts a message at a character.
func truncate(message string) string {
	if len(message) <= messageLimit {
		return message
	}

	const mark = "…"

	cut := messageLimit - len(mark)
	for !utf8.RuneStart(message[cut]) {
		cut--
	}

	return message[:cut] + mark
}
