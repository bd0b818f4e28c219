package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// prober asks one probe of a container, again and again.
type prober struct {
	url       string
	header    http.Header
	client    *http.Client
	delay     time.Duration
	period    time.Duration
	successes int32
	failures  int32
}

// newProber reads a probe; without one it returns nil.
func newProber(probe *corev1.Probe, container *corev1.Container, address netip.Addr) (*prober, error) {
	if probe == nil {
		return nil, nil //nolint:nilnil // a probe that is not there is no error
	}

	get := probe.HTTPGet
	if get == nil {
		return nil, fmt.Errorf("container %s: only httpGet probes are supported", container.Name)
	}

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

	return &prober{
		url: target.String(), header: header,
		client: &http.Client{
			Timeout:   seconds(max(1, probe.TimeoutSeconds)),
			Transport: &http.Transport{DisableKeepAlives: true},
			// A redirect is an answer.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		delay:     seconds(probe.InitialDelaySeconds),
		period:    seconds(cmp.Or(probe.PeriodSeconds, 10)),
		successes: max(1, probe.SuccessThreshold),
		failures:  cmp.Or(probe.FailureThreshold, 3),
	}, nil
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

// healthy asks once.
func (p *prober) healthy(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return false
	}

	request.Header = p.header.Clone()
	request.Host = p.header.Get("Host")

	answer, err := p.client.Do(request)
	if err != nil {
		return false
	}

	return answer.Body.Close() == nil && answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusBadRequest
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
