package status

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// action is what the operator was doing when it recorded an Event.
const action = "Reconcile"

type event struct {
	eventType, reason, note string
}

// Normal records an Event after the next write of the status. It is for what happened, not for how things are.
func (p *Pass) Normal(reason, note string) {
	p.events = append(p.events, event{corev1.EventTypeNormal, reason, truncate(note)})
}

// Warning records a Warning after the next write of the status.
func (p *Pass) Warning(reason, note string) {
	p.events = append(p.events, event{corev1.EventTypeWarning, reason, truncate(note)})
}

// record notes an Event for each condition that turned: Normal when it became True, Warning when it was lost or the
// object stalled. A condition that is not True yet is no news, and what Ready loses is told by the condition behind it.
func (p *Pass) record(found Object) {
	before := p.base.GetConditions()

	for _, condition := range found.GetConditions() {
		was := statusIn(before, condition.Type)
		if was == condition.Status || condition.Type == v1alpha1.ConditionReconciling || p.tells(condition.Reason) {
			continue
		}

		note := cmp.Or(condition.Message, fmt.Sprintf("%s is %s.", condition.Type, condition.Status))

		switch {
		case condition.Type == v1alpha1.ConditionStalled:
			p.Warning(condition.Reason, note)
		case condition.Status == metav1.ConditionTrue:
			p.Normal(condition.Reason, note)
		case was == metav1.ConditionTrue && condition.Type != v1alpha1.ConditionReady:
			p.Warning(condition.Reason, note)
		}
	}
}

// tells reports whether the reconciler has words of its own for what happened.
func (p *Pass) tells(reason string) bool {
	return slices.ContainsFunc(p.events, func(e event) bool { return e.reason == reason })
}

func statusIn(conditions []metav1.Condition, conditionType string) metav1.ConditionStatus {
	if condition := apimeta.FindStatusCondition(conditions, conditionType); condition != nil {
		return condition.Status
	}

	return ""
}

func (p *Pass) emit() {
	for _, news := range p.events {
		p.writer.recorder.Eventf(p.object, nil, news.eventType, news.reason, action, "%s", news.note)
	}

	p.events = nil
}
