package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// prober asks one probe of a container, again and again.
type prober struct {
	// healthy asks once.
	healthy   func(ctx context.Context) bool
	delay     time.Duration
	period    time.Duration
	successes int32
	failures  int32
}

// newProbers reads the probes of a container whose environment is env.
func newProbers(container *corev1.Container, address netip.Addr, env []string) (map[probeKind]*prober, error) {
	probers := map[probeKind]*prober{}

	for kind, probe := range map[probeKind]*corev1.Probe{
		startup: container.StartupProbe, readiness: container.ReadinessProbe, liveness: container.LivenessProbe,
	} {
		if probe == nil {
			continue
		}

		asked, err := newProber(probe, container, address, env)
		if err != nil {
			return nil, err
		}

		probers[kind] = asked
	}

	return probers, nil
}

func newProber(
	probe *corev1.Probe, container *corev1.Container, address netip.Addr, env []string,
) (*prober, error) {
	p := &prober{
		delay:     seconds(probe.InitialDelaySeconds),
		period:    seconds(cmp.Or(probe.PeriodSeconds, 10)),
		successes: max(1, probe.SuccessThreshold),
		failures:  cmp.Or(probe.FailureThreshold, 3),
	}
	limit := seconds(max(1, probe.TimeoutSeconds))

	var err error

	switch {
	case probe.HTTPGet != nil:
		p.healthy, err = asksHTTP(probe.HTTPGet, container, address, limit)
	case probe.Exec != nil:
		p.healthy, err = asksProgram(probe.Exec.Command, address, env, limit)
	default:
		err = fmt.Errorf("container %s: only httpGet and exec probes are supported", container.Name)
	}

	return p, err
}

func asksHTTP(
	get *corev1.HTTPGetAction, container *corev1.Container, address netip.Addr, limit time.Duration,
) (func(context.Context) bool, error) {
	port, err := portNumber(get.Port, container)
	if err != nil {
		return nil, err
	}

	path, query, _ := strings.Cut(get.Path, "?")
	target := url.URL{
		Scheme:   strings.ToLower(cmp.Or(string(get.Scheme), "http")),
		Host:     net.JoinHostPort(cmp.Or(get.Host, address.String()), strconv.Itoa(port)),
		Path:     "/" + strings.TrimPrefix(path, "/"),
		RawQuery: query,
	}

	header := http.Header{}
	for _, h := range get.HTTPHeaders {
		header.Add(h.Name, h.Value)
	}

	client := &http.Client{
		Timeout:   limit,
		Transport: &http.Transport{DisableKeepAlives: true},
		// A redirect is an answer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}

	return func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
		if err != nil {
			return false
		}

		request.Header = header.Clone()
		request.Host = header.Get("Host")

		answer, err := client.Do(request)
		if err != nil {
			return false
		}

		return answer.Body.Close() == nil && answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusBadRequest
	}, nil
}

// asksProgram runs a program with the container's environment. The loopback address of the pod's own network is the
// pod's address here, where all pods share one network.
func asksProgram(
	command []string, address netip.Addr, env []string, limit time.Duration,
) (func(context.Context) bool, error) {
	if len(command) == 0 {
		return nil, errors.New("an exec probe has no command")
	}

	argv := make([]string, len(command))
	for i, arg := range command {
		argv[i] = strings.ReplaceAll(arg, hostAddress, address.String())
	}

	program, err := findProgram(argv[0], env)
	if err != nil {
		return nil, err
	}

	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()

		asked := exec.CommandContext(ctx, program, argv[1:]...)
		asked.Env, asked.Dir, asked.WaitDelay = env, "/", outputGrace

		return asked.Run() == nil
	}, nil
}

// findProgram finds a program as a container's own PATH does.
func findProgram(name string, env []string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}

	for _, variable := range env {
		path, found := strings.CutPrefix(variable, "PATH=")
		if !found {
			continue
		}

		for _, dir := range filepath.SplitList(path) {
			if program, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return program, nil
			}
		}
	}

	return "", fmt.Errorf("there is no program %q for a probe", name)
}

func portNumber(port intstr.IntOrString, container *corev1.Container) (int, error) {
	if port.Type == intstr.Int {
		return port.IntValue(), nil
	}

	for _, named := range container.Ports {
		if named.Name == port.StrVal {
			return int(named.ContainerPort), nil
		}
	}

	return 0, fmt.Errorf("container %s has no port named %q", container.Name, port.StrVal)
}

func seconds(count int32) time.Duration { return time.Duration(count) * time.Second }

// run says each change of the verdict until ctx ends. The first one comes when a threshold is reached.
func (p *prober) run(ctx context.Context, verdict func(healthy bool)) {
	if !pause(ctx, p.delay) {
		return
	}

	var successes, failures int32

	for {
		if p.healthy(ctx) {
			successes, failures = successes+1, 0
		} else {
			successes, failures = 0, failures+1
		}

		switch {
		case ctx.Err() != nil:
			return
		case successes == p.successes:
			verdict(true)
		case failures == p.failures:
			verdict(false)
		}

		if !pause(ctx, p.period) {
			return
		}
	}
}

// pause waits, and returns false when ctx ends first.
func pause(ctx context.Context, span time.Duration) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
