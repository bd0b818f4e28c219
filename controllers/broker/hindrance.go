package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
)

const (
	// hindrancePoll is how often pods that do not start are looked at: their own changes wake nobody.
	hindrancePoll = 10 * time.Second
	// readyWithin is how long a running container may take to become ready before that is worth telling.
	readyWithin = 30 * time.Second
)

// onTheWay are the reasons of containers that wait for nothing but their turn.
var onTheWay = []string{"", "ContainerCreating", "PodInitializing"}

// hindrance tells what keeps the pods of a component from working, as a sentence to add to a message, or nothing. It is
// asked for only while something is amiss, and past the cache, which holds no pods.
func (r *Reconciler) hindrance(ctx context.Context, broker *v1alpha1.Broker, component string) (string, error) {
	var pods corev1.PodList

	err := r.Reader.List(ctx, &pods, client.InNamespace(broker.Namespace),
		client.MatchingLabels(selectorLabels(broker, component)))
	if err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}

	if component == componentPostgres && len(pods.Items) == 0 {
		return " It has no pod yet; should that last, its Events tell why.", nil
	}

	return hindranceOf(pods.Items, r.Clock.Now()), nil
}

// hindranceOf looks at the newest pod first: it is the one that a rollout waits for.
func hindranceOf(pods []corev1.Pod, now time.Time) string {
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})

	for i := range pods {
		pod := &pods[i]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}

		if why := podHindrance(pod, now); why != "" {
			return fmt.Sprintf(" Pod %q %s.", pod.Name, strings.TrimRight(why, ". \n"))
		}
	}

	return ""
}

func podHindrance(pod *corev1.Pod, now time.Time) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "finds no node: " + cmp.Or(condition.Message, condition.Reason)
		}
	}

	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if why := containerHindrance(&container, now); why != "" {
			return why
		}
	}

	return ""
}

func containerHindrance(container *corev1.ContainerStatus, now time.Time) string {
	waiting, running := container.State.Waiting, container.State.Running

	switch ended := cmp.Or(container.State.Terminated, container.LastTerminationState.Terminated); {
	case container.Ready:
		return ""
	case ended != nil && ended.ExitCode != 0:
		// Whether it is up or waits for its next start is a matter of the moment.
		return fmt.Sprintf("does not stay up: its container ended with code %d (%s)", ended.ExitCode, ended.Reason)
	case waiting != nil && !slices.Contains(onTheWay, waiting.Reason):
		return "does not start: " + strings.Join(slices.DeleteFunc(
			[]string{waiting.Reason, waiting.Message}, func(s string) bool { return s == "" }), ": ")
	case running != nil && now.Sub(running.StartedAt.Time) > readyWithin:
		return "runs and is not ready"
	default:
		return ""
	}
}

// replicaFailure is why a Deployment cannot even make its pods.
func replicaFailure(deployment *appsv1.Deployment) string {
	failure := conditionOf(deployment, appsv1.DeploymentReplicaFailure)
	if failure == nil || failure.Status != corev1.ConditionTrue {
		return ""
	}

	return fmt.Sprintf(" Deployment %q cannot make its pods: %s.",
		deployment.Name, strings.TrimRight(failure.Message, "."))
}
