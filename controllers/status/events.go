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

// record notes an Event for each condition that turned. Ready comes last: what another condition tells, it does not
// repeat.
func (p *Pass) record(found Object) {
	before := p.base.GetConditions()

	conditions := slices.Clone(found.GetConditions())
	slices.SortStableFunc(conditions, func(a, b metav1.Condition) int { return rank(a) - rank(b) })

	for _, condition := range conditions {
		eventType := turn(apimeta.FindStatusCondition(before, condition.Type), &condition)
		if eventType == "" || p.tells(condition.Reason) {
			continue
		}

		note := cmp.Or(condition.Message, fmt.Sprintf("%s is %s.", condition.Type, condition.Status))
		p.events = append(p.events, event{eventType, condition.Reason, truncate(note)})
	}
}

func rank(condition metav1.Condition) int {
	if condition.Type == v1alpha1.ConditionReady {
		return 1
	}

	return 0
}

// tells reports whether the reconciler has words of its own for what happened.
func (p *Pass) tells(reason string) bool {
	return slices.ContainsFunc(p.events, func(e event) bool { return e.reason == reason })
}

func (p *Pass) emit() {
	for _, news := range p.events {
		p.writer.recorder.Eventf(p.object, nil, news.eventType, news.reason, action, "%s", news.note)
	}

	p.events = nil
}
