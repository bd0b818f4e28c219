package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var errUnsupported = errors.New("hostpods cannot run this pod")

const (
	// Restarts wait ever longer, until a container has run for long enough to be taken for healthy.
	firstBackoff = time.Second
	lastBackoff  = 5 * time.Minute
	provenAfter  = 10 * time.Minute

	// configRetry is how long a container waits whose Secret or ConfigMap is missing.
	configRetry = time.Second
	apiTimeout  = 10 * time.Second
)

// pod is a pod on this host.
type pod struct {
	host    *host
	spec    *corev1.Pod
	source  string
	address netip.Addr
	volumes volumes
	status  podStatus

	// life ends when the pod is deleted or the host stops; hostLife tells the two apart.
	life, hostLife context.Context //nolint:containedctx // the pod's life is what its parts share
	end            context.CancelFunc
}

// command is what to run for the pod.
type command struct {
	argv, env []string
	probers   map[probeKind]*prober
}

// run takes the pod from its binding to its end.
func (p *pod) run() {
	defer p.end()

	if err := p.runContainer(); err != nil && p.life.Err() == nil {
		p.log("%v", err)
	}

	if err := p.volumes.remove(); err != nil {
		p.log("remove the volumes: %v", err)
	}

	<-p.life.Done()

	// A pod that ends within the host's life was deleted.
	if p.hostLife.Err() != nil {
		return
	}

	ctx, cancel := context.WithTimeout(p.hostLife, apiTimeout)
	defer cancel()

	if err := p.host.remove(ctx, p); err != nil {
		p.log("remove the pod: %v", err)
	}
}

func (p *pod) log(format string, args ...any) { p.host.out.print(p.source, format, args...) }

// runContainer runs the container again and again until the pod's life ends.
func (p *pod) runContainer() error {
	if p.life.Err() != nil {
		return nil
	}

	if err := p.host.bind(p.life, p); err != nil {
		return fmt.Errorf("bind the pod: %w", err)
	}

	address, err := p.host.addresses.take(p.source)
	if err != nil {
		return p.waiting("CreateContainerError", err)
	}
	defer p.host.addresses.give(p.source, address)

	p.address = address

	for backoff := firstBackoff; ; {
		prepared, err := p.prepare()
		if errors.Is(err, errUnsupported) {
			// Only another pod can help.
			return p.waiting("CreateContainerConfigError", err)
		}

		if err != nil {
			p.report(func(s *podStatus) { s.wait("CreateContainerConfigError", err.Error()) })
		} else if started, err := start(prepared.argv, prepared.env, "/", p.host.out.from(p.source)); err != nil {
			return p.waiting("CreateContainerError", err)
		} else {
			p.attend(started, prepared.probers)
		}

		if p.life.Err() != nil {
			return nil
		}

		span := configRetry

		if prepared != nil {
			if p.status.ranFor() > provenAfter {
				backoff = firstBackoff
			}

			span, backoff = backoff, min(2*backoff, lastBackoff)
			p.report(func(s *podStatus) {
				s.wait("CrashLoopBackOff", fmt.Sprintf("the process ended; it is started again after %s", span))
			})
		}

		if !pause(p.life, span) {
			return nil
		}
	}
}

// waiting says why the container will never run.
func (p *pod) waiting(reason string, err error) error {
	p.report(func(s *podStatus) { s.wait(reason, err.Error()) })

	return err
}

// attend watches a running process until it has ended: by itself, by its liveness probe, or with the pod.
func (p *pod) attend(running *process, probers map[probeKind]*prober) {
	p.log("started process %d on %s", running.pid, p.address)
	p.report(func(s *podStatus) { s.run(running, probers) })

	probing, stopProbing := context.WithCancel(p.life)
	defer stopProbing()

	verdicts := make(chan verdict)
	go askAll(probing, probers, verdicts)

	for {
		select {
		case <-running.exited:
			p.log("process %d ended with code %d", running.pid, running.code)
			p.report(func(s *podStatus) { s.ended(running) })

			return
		case v := <-verdicts:
			if v.fatal() {
				p.log("the %s probe failed; process %d is stopped", v.kind, running.pid)
				running.stop(p.grace())
			} else {
				p.report(func(s *podStatus) { s.judge(v) })
			}
		case <-p.life.Done():
			stopProbing()
			p.terminate(running)
			p.log("stopped process %d", running.pid)
			p.report(func(s *podStatus) { s.ended(running) })

			return
		}
	}
}

// terminate ends the process as a pod's deletion does: the preStop sleep, the signal, the rest of the grace period.
func (p *pod) terminate(running *process) {
	grace := p.grace()

	if hooks := p.spec.Spec.Containers[0].Lifecycle; hooks != nil && hooks.PreStop != nil {
		sleep := min(grace, time.Duration(hooks.PreStop.Sleep.Seconds)*time.Second)
		grace -= sleep

		timer := time.NewTimer(sleep)
		defer timer.Stop()

		select {
		case <-timer.C:
		case <-running.exited:
		case <-p.hostLife.Done():
		}
	}

	running.stop(grace)
}

func (p *pod) grace() time.Duration {
	if period := p.spec.Spec.TerminationGracePeriodSeconds; period != nil {
		return time.Duration(*period) * time.Second
	}

	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// prepare works out what to run and provides the volumes.
func (p *pod) prepare() (*command, error) {
	if err := supported(&p.spec.Spec); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnsupported, err)
	}

	container := &p.spec.Spec.Containers[0]

	program, standsIn, err := p.host.program(container)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnsupported, err)
	}

	ctx, cancel := context.WithTimeout(p.life, apiTimeout)
	defer cancel()

	from := p.host.sources(ctx, p)

	env, err := from.environment(container)
	if err != nil {
		return nil, err
	}

	result := &command{argv: []string{program}}

	for i, arg := range append(container.Command, container.Args...) {
		if i > 0 || len(container.Command) == 0 {
			result.argv = append(result.argv, expand(arg, env.lookup))
		}
	}

	result.env = append([]string{"PATH=" + p.host.searchPath(), "HOME=/", "HOSTNAME=" + p.spec.Name}, env.list()...)

	if result.probers, err = newProbers(container, p.address, result.env); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnsupported, err)
	}

	if err := p.host.bindClaims(ctx, p.spec); err != nil {
		return nil, err
	}

	if err := p.volumes.mount(from, container, standsIn); err != nil {
		return nil, errors.Join(err, p.volumes.remove())
	}

	if standsIn {
		result.env = append(result.env, p.volumes.placement(p.address)...)
	}

	return result, nil
}

// program finds what to run for a container, and tells whether it stands in for an image with a file system of its own.
func (h *host) program(container *corev1.Container) (program string, standsIn bool, err error) {
	program, err = h.images.program(container.Image)
	if err != nil {
		program, err = h.standIns.program(container.Image)
		standsIn = true
	}

	if err != nil {
		return "", false, err
	}

	if len(container.Command) > 0 && filepath.Base(container.Command[0]) != filepath.Base(program) {
		return "", false, fmt.Errorf("%q is not the program that stands for its image", container.Command[0])
	}

	return program, standsIn, nil
}

func (h *host) searchPath() string {
	const usual = "/usr/local/bin:/usr/bin:/bin"
	if h.path == "" {
		return usual
	}

	return h.path + ":" + usual
}

// supported tells whether a pod asks only for what a process on the host can have.
func supported(spec *corev1.PodSpec) error {
	var unsupported []string

	for what, asked := range map[string]bool{
		"init containers":               len(spec.InitContainers) > 0,
		"more than one container":       len(spec.Containers) != 1,
		"the host's namespaces":         spec.HostNetwork || spec.HostPID || spec.HostIPC,
		"a restartPolicy but Always":    spec.RestartPolicy != corev1.RestartPolicyAlways,
		"an overhead or a runtimeClass": spec.RuntimeClassName != nil,
	} {
		if asked {
			unsupported = append(unsupported, what)
		}
	}

	container := &spec.Containers[0]

	hooks := container.Lifecycle
	if hooks != nil && (hooks.PostStart != nil || hooks.PreStop != nil && hooks.PreStop.Sleep == nil) {
		unsupported = append(unsupported, "lifecycle hooks but a preStop sleep")
	}

	if container.WorkingDir != "" {
		unsupported = append(unsupported, "a workingDir")
	}

	if len(unsupported) > 0 {
		return errors.New("it asks for " + strings.Join(unsupported, ", "))
	}

	return nil
}
