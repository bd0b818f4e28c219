package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type probeKind string

const (
	startup   probeKind = "startup"
	readiness probeKind = "readiness"
	liveness  probeKind = "liveness"
)

// verdict is the answer of a probe.
type verdict struct {
	kind    probeKind
	healthy bool
}

// fatal tells whether the container has to be restarted.
func (v verdict) fatal() bool { return !v.healthy && v.kind != readiness }

// askAll asks a container's probes until ctx ends, the others once the startup probe has succeeded.
func askAll(ctx context.Context, probers map[probeKind]*prober, verdicts chan<- verdict) {
	tell := func(kind probeKind, healthy bool) {
		select {
		case verdicts <- verdict{kind, healthy}:
		case <-ctx.Done():
		}
	}

	if first := probers[startup]; first != nil {
		starting, started := context.WithCancel(ctx)
		first.run(starting, func(healthy bool) {
			tell(startup, healthy)
			started()
		})
		started()
	}

	for _, kind := range []probeKind{readiness, liveness} {
		if asked := probers[kind]; asked != nil {
			go asked.run(ctx, func(healthy bool) { tell(kind, healthy) })
		}
	}
}

// podStatus is what the API is told of a pod.
type podStatus struct {
	state, last    corev1.ContainerState
	ready, started bool
	// gated are the probes that have to succeed before the container is ready.
	gated    map[probeKind]bool
	restarts int32
	running  *process
	since    map[corev1.PodConditionType]corev1.PodCondition
}

func (s *podStatus) wait(reason, message string) {
	s.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	s.ready, s.started = false, false
}

func (s *podStatus) run(running *process, probers map[probeKind]*prober) {
	if s.running != nil {
		s.restarts++
	}

	s.running = running
	s.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(running.started)}}
	s.gated = map[probeKind]bool{startup: probers[startup] != nil, readiness: probers[readiness] != nil}
	s.settle()
}

// judge takes in the answer of a startup or readiness probe.
func (s *podStatus) judge(v verdict) {
	s.gated[v.kind] = !v.healthy
	s.settle()
}

func (s *podStatus) settle() {
	s.started = !s.gated[startup]
	s.ready = s.started && !s.gated[readiness]
}

func (s *podStatus) ended(process *process) {
	reason := "Completed"
	if process.code != 0 {
		reason = "Error"
	}

	s.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: process.code, Reason: reason, ContainerID: containerID(process),
		StartedAt: metav1.NewTime(process.started), FinishedAt: metav1.NewTime(process.ended),
	}}
	s.last = s.state
	s.ready, s.started = false, false
}

// ranFor is how long the last process ran.
func (s *podStatus) ranFor() time.Duration {
	if s.last.Terminated == nil {
		return 0
	}

	return s.last.Terminated.FinishedAt.Sub(s.last.Terminated.StartedAt.Time)
}

func containerID(p *process) string {
	if p == nil {
		return ""
	}

	return "process://" + strconv.Itoa(p.pid)
}

// report changes the status and writes it. A status that cannot be written is written with the next change.
func (p *pod) report(change func(*podStatus)) {
	change(&p.status)

	// The last report of a pod comes after its life.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.life), apiTimeout)
	defer cancel()

	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.spec.UID},
		"status":   p.status.render(p),
	})
	if err == nil {
		_, err = p.host.client.CoreV1().Pods(p.spec.Namespace).
			Patch(ctx, p.spec.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	}

	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		p.log("write the status: %v", err)
	}
}

func (s *podStatus) render(p *pod) corev1.PodStatus {
	container := &p.spec.Spec.Containers[0]
	address := p.address.String()

	status := corev1.PodStatus{
		Phase: corev1.PodPending,
		Conditions: []corev1.PodCondition{
			s.condition(corev1.PodScheduled, true),
			s.condition(corev1.PodInitialized, true),
			s.condition(corev1.ContainersReady, s.ready),
			s.condition(corev1.PodReady, s.ready),
		},
		HostIP: hostAddress, HostIPs: []corev1.HostIP{{IP: hostAddress}},
		StartTime: &p.spec.CreationTimestamp,
		QOSClass:  p.spec.Status.QOSClass,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: container.Name, Image: container.Image, ImageID: container.Image,
			State: s.state, LastTerminationState: s.last, ContainerID: containerID(s.running),
			Ready: s.ready, Started: &s.started, RestartCount: s.restarts,
		}},
	}

	if s.running != nil {
		status.Phase = corev1.PodRunning
	}

	if p.address.IsValid() {
		status.PodIP, status.PodIPs = address, []corev1.PodIP{{IP: address}}
	}

	return status
}

// condition renders a condition and keeps the time of its last change.
func (s *podStatus) condition(kind corev1.PodConditionType, holds bool) corev1.PodCondition {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}

	current, known := s.since[kind]
	if !known || current.Status != status {
		current = corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()}

		if !holds {
			current.Reason = "ContainersNotReady"
		}

		if s.since == nil {
			s.since = map[corev1.PodConditionType]corev1.PodCondition{}
		}

		s.since[kind] = current
	}

	return current
}
