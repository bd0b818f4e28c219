package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probed is a server whose health the test decides, and a container that serves from it.
func probed(t *testing.T, handle http.HandlerFunc) (*corev1.Container, netip.Addr) {
	t.Helper()

	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)

	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}

	return &corev1.Container{
		Name: "api", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(number)}},
	}, netip.MustParseAddr(host)
}

func get(path string) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: path, Port: intstr.FromString("http"),
	}}}
}

func TestProbeAsksAsItIsTold(t *testing.T) {
	t.Parallel()

	asked := make(chan *http.Request, 1)
	container, address := probed(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r })

	probe := get("readyz?full=1")
	probe.HTTPGet.HTTPHeaders = []corev1.HTTPHeader{{Name: "X-Probe", Value: "yes"}, {Name: "Host", Value: "example.com"}}

	p, err := newProber(probe, container, address, nil)
	if err != nil {
		t.Fatal(err)
	}

	if !p.healthy(t.Context()) {
		t.Error("a server that answers 200 is not healthy")
	}

	r := <-asked
	got := []string{r.URL.String(), r.Header.Get("X-Probe"), r.Host}

	if diff := cmp.Diff([]string{"/readyz?full=1", "yes", "example.com"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestProbeJudgesTheStatus(t *testing.T) {
	t.Parallel()

	for status, want := range map[int]bool{
		http.StatusOK: true, http.StatusNoContent: true, http.StatusFound: true,
		http.StatusBadRequest: false, http.StatusServiceUnavailable: false,
	} {
		container, address := probed(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })

		p, err := newProber(get("/"), container, address, nil)
		if err != nil {
			t.Fatal(err)
		}

		if got := p.healthy(t.Context()); got != want {
			t.Errorf("status %d is healthy: %t, want %t", status, got, want)
		}
	}
}

func TestProbeWaitsForItsThresholds(t *testing.T) {
	t.Parallel()

	// The answers of the server, in turn; the last one goes on.
	answers := []bool{true, false, true, true, false, false, true, false, false, false}

	var count atomic.Int32

	container, address := probed(t, func(w http.ResponseWriter, _ *http.Request) {
		if i := min(int(count.Add(1))-1, len(answers)-1); !answers[i] {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})

	p, err := newProber(get("/"), container, address, nil)
	if err != nil {
		t.Fatal(err)
	}

	p.period, p.successes, p.failures = time.Millisecond, 2, 3
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)

	type change struct {
		Healthy bool
		After   int32
	}

	var got []change

	p.run(ctx, func(healthy bool) {
		got = append(got, change{healthy, count.Load()})

		if len(got) == 2 {
			cancel()
		}
	})

	if diff := cmp.Diff([]change{{true, 4}, {false, 10}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestProbesWaitForTheStartupProbe(t *testing.T) {
	t.Parallel()

	var early atomic.Bool

	up := make(chan struct{})
	container, address := probed(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-up:
		default:
			if r.URL.Path != "/started" {
				early.Store(true)
			}

			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})

	probers := map[probeKind]*prober{}

	for kind, path := range map[probeKind]string{startup: "/started", readiness: "/ready", liveness: "/alive"} {
		p, err := newProber(get(path), container, address, nil)
		if err != nil {
			t.Fatal(err)
		}

		p.period, p.failures = time.Millisecond, 1_000_000
		probers[kind] = p
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)

	verdicts := make(chan verdict)
	go askAll(ctx, probers, verdicts)

	select {
	case v := <-verdicts:
		t.Fatalf("a verdict before the start: %v", v)
	case <-time.After(50 * time.Millisecond):
		close(up)
	}

	if first := <-verdicts; first != (verdict{startup, true}) {
		t.Errorf("the first verdict is %v", first)
	}

	got := map[verdict]bool{<-verdicts: true, <-verdicts: true}
	if diff := cmp.Diff(map[verdict]bool{{readiness, true}: true, {liveness, true}: true}, got); diff != "" {
		t.Error(diff)
	}

	if early.Load() {
		t.Error("another probe was asked before the startup probe had succeeded")
	}
}

func TestProbeRefusesWhatItCannotAsk(t *testing.T) {
	t.Parallel()

	container := &corev1.Container{Name: "api"}

	for name, probe := range map[string]*corev1.Probe{
		"no command":      {ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}},
		"unknown program": {ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"no-such"}}}},
		"tcp":             {ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}},
		"unknown port":    get("/"),
	} {
		if _, err := newProber(probe, container, netip.MustParseAddr("127.0.0.1"), []string{"PATH=/bin"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestProbeRunsItsProgram(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$USER_OF\" = shop ] && [ \"$1\" = --host=127.77.0.9 ] && exit \"$2\"\nexit 9\n"

	if err := os.WriteFile(filepath.Join(dir, "is_ready"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}

	env := []string{"PATH=/nowhere:" + dir, "USER_OF=shop"}

	for code, want := range map[string]bool{"0": true, "2": false} {
		probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
			Command: []string{"is_ready", "--host=127.0.0.1", code},
		}}}

		p, err := newProber(probe, &corev1.Container{}, netip.MustParseAddr("127.77.0.9"), env)
		if err != nil {
			t.Fatal(err)
		}

		if got := p.healthy(t.Context()); got != want {
			t.Errorf("a program that ends with %s is healthy: %t", code, got)
		}
	}
}
