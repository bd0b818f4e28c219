package broker

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHindrance(t *testing.T) {
	t.Parallel()

	now := time.Now()
	waiting := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}
	running := func(span time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-span))}}
	}
	crashing := waiting("CrashLoopBackOff", "back-off 20s restarting failed container")
	crashing.LastTerminationState = ended

	const killed = ` Pod "a" does not stay up: its container ended with code 137 (OOMKilled).`

	for name, test := range map[string]struct {
		container corev1.ContainerStatus
		want      string
	}{
		"being created": {waiting("ContainerCreating", ""), ""},
		"no image": {
			waiting("ImagePullBackOff", `Back-off pulling image "x:1".`),
			` Pod "a" does not start: ImagePullBackOff: Back-off pulling image "x:1".`,
		},
		"no Secret":           {waiting("CreateContainerConfigError", ""), ` Pod "a" does not start: CreateContainerConfigError.`},
		"crashes":             {crashing, killed},
		"up between crashes":  {corev1.ContainerStatus{State: running(0), LastTerminationState: ended}, killed},
		"has just crashed":    {corev1.ContainerStatus{State: ended}, killed},
		"up after a crash":    {corev1.ContainerStatus{Ready: true, State: running(0), LastTerminationState: ended}, ""},
		"starting":            {corev1.ContainerStatus{State: running(readyWithin)}, ""},
		"does not get ready":  {corev1.ContainerStatus{State: running(readyWithin + 1)}, ` Pod "a" runs and is not ready.`},
		"ready for long":      {corev1.ContainerStatus{Ready: true, State: running(time.Hour)}, ""},
		"nothing is known":    {corev1.ContainerStatus{}, ""},
		"a reason of our own": {waiting("Odd", ""), ` Pod "a" does not start: Odd.`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			pod := corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{test.container}},
			}

			if got := hindranceOf([]corev1.Pod{pod}, now); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}

			pod.DeletionTimestamp = new(metav1.Now())
			if got := hindranceOf([]corev1.Pod{pod}, now); got != "" {
				t.Errorf("of a pod that is being deleted: %q", got)
			}
		})
	}
}

func TestHindranceOfTheNewestPod(t *testing.T) {
	t.Parallel()

	now := time.Now()
	pod := func(name string, age time.Duration, message string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message,
			}}},
		}
	}

	got := hindranceOf([]corev1.Pod{pod("old", time.Hour, "x"), pod("new", time.Minute, "0/3 nodes are available.")}, now)
	if want := ` Pod "new" finds no node: 0/3 nodes are available.`; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestReplicaFailure(t *testing.T) {
	t.Parallel()

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "orders-api"}}
	if got := replicaFailure(deployment); got != "" {
		t.Errorf("got %q of a Deployment without conditions", got)
	}

	deployment.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota: small",
	}}

	want := ` Deployment "orders-api" cannot make its pods: exceeded quota: small.`
	if got := replicaFailure(deployment); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
