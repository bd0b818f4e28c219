package broker

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// seen is a Deployment's status.
type seen struct {
	generation, observed, wanted, replicas, updated, up int32
	progressing                                         string
}

func (s seen) deployment() *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "orders-api", Generation: int64(s.generation)},
		Spec:       appsv1.DeploymentSpec{Replicas: &s.wanted},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: int64(s.observed), Replicas: s.replicas, UpdatedReplicas: s.updated, AvailableReplicas: s.up,
		},
	}
	if s.progressing != "" {
		deployment.Status.Conditions = append(deployment.Status.Conditions,
			appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Reason: s.progressing})
	}

	return deployment
}

func TestJudge(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		seen      seen
		available metav1.ConditionStatus
		done      bool
		reason    string
	}{
		"just created": {
			seen{1, 0, 1, 0, 0, 0, ""}, metav1.ConditionFalse, false, v1alpha1.ReasonProgressing,
		},
		"first pod starting": {
			seen{1, 1, 1, 1, 1, 0, ""},
			metav1.ConditionFalse, false, v1alpha1.ReasonMinimumReplicasUnavailable,
		},
		"serving": {
			seen{1, 1, 2, 2, 2, 2, "NewReplicaSetAvailable"},
			metav1.ConditionTrue, true, v1alpha1.ReasonReady,
		},
		"scaled up, one pod starting": {
			seen{2, 2, 2, 2, 2, 1, "NewReplicaSetAvailable"},
			metav1.ConditionTrue, false, v1alpha1.ReasonMinimumReplicasUnavailable,
		},
		"changed and not seen yet": {
			seen{2, 1, 2, 2, 2, 2, ""}, metav1.ConditionTrue, false, v1alpha1.ReasonProgressing,
		},
		"some pods of the new version": {
			seen{2, 2, 3, 4, 2, 3, ""}, metav1.ConditionTrue, false, v1alpha1.ReasonProgressing,
		},
		"old pods ending": {
			seen{2, 2, 3, 4, 3, 4, ""}, metav1.ConditionTrue, false, v1alpha1.ReasonProgressing,
		},
		"gave up, the old pods serve": {
			seen{2, 2, 3, 4, 1, 3, "ProgressDeadlineExceeded"},
			metav1.ConditionTrue, false, v1alpha1.ReasonRolloutFailed,
		},
		"gave up, nothing serves": {
			seen{1, 1, 1, 1, 1, 0, "ProgressDeadlineExceeded"},
			metav1.ConditionFalse, false, v1alpha1.ReasonRolloutFailed,
		},
		"gave up on an earlier version": {
			seen{3, 2, 3, 4, 1, 3, "ProgressDeadlineExceeded"},
			metav1.ConditionTrue, false, v1alpha1.ReasonProgressing,
		},
		"scaled to zero": {
			seen{2, 2, 0, 0, 0, 0, ""}, metav1.ConditionFalse, true, v1alpha1.ReasonScaledToZero,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := judge(test.seen.deployment())
			if got.available != test.available || got.outcome.IsDone() != test.done || got.outcome.Reason() != test.reason {
				t.Errorf("available %s, done %t, reason %s", got.available, got.outcome.IsDone(), got.outcome.Reason())
			}
		})
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()

	type object = map[string]any

	type list = []any

	live := object{
		"replicas": int64(2), "image": "a:1", "empty": object{},
		"labels":     object{"ours": "x", "theirs": "y"},
		"args":       list{"api"},
		"containers": list{object{"name": "sidecar"}, object{"name": "api", "image": "a:1", "pullPolicy": "Always"}},
		"taints":     list{object{"key": "a", "effect": "b"}},
	}

	for name, test := range map[string]struct {
		wanted object
		want   bool
	}{
		"nothing":               {object{}, true},
		"the same":              {live, true},
		"another number":        {object{"replicas": int64(3)}, false},
		"another kind of value": {object{"replicas": "2"}, false},
		"a missing field":       {object{"paused": true}, false},
		"a missing empty field": {object{"resources": object{}, "volumes": list{}}, true},
		"one label of two":      {object{"labels": object{"ours": "x"}}, true},
		"another label":         {object{"labels": object{"ours": "z"}}, false},
		"a longer list":         {object{"args": list{"api", "--verbose"}}, false},
		"another element":       {object{"args": list{"operator"}}, false},
		"a named element":       {object{"containers": list{object{"name": "api", "image": "a:1"}}}, true},
		"another image":         {object{"containers": list{object{"name": "api", "image": "a:2"}}}, false},
		"a missing name":        {object{"containers": list{object{"name": "other"}}}, false},
		"an element by place":   {object{"taints": list{object{"key": "a"}}}, true},
		"another by place":      {object{"taints": list{object{"key": "c"}}}, false},
		"a list for an object":  {object{"labels": list{}}, false},
		"an exception":          {object{"kind": "X"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := covers(live, test.wanted, "kind"); got != test.want {
				t.Errorf("covers is %t", got)
			}
		})
	}
}
