package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestImagesAreKnownByName(t *testing.T) {
	t.Parallel()

	known := images{}
	for _, text := range []string{"deadletter=/bin/a", "localhost:5000/x/y=/bin/b"} {
		if err := known.Set(text); err != nil {
			t.Fatal(err)
		}
	}

	for image, want := range map[string]string{
		"deadletter": "/bin/a", "deadletter:dev": "/bin/a", "deadletter@sha256:00": "/bin/a",
		"deadletter:1@sha256:00": "/bin/a", "localhost:5000/x/y": "/bin/b", "localhost:5000/x/y:2": "/bin/b",
		"other:dev": "", "docker.io/deadletter": "",
	} {
		got, err := known.program(image)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q (%v), want %q", image, got, err, want)
		}
	}
}

func TestAddressesAreReused(t *testing.T) {
	t.Parallel()

	a := addresses{prefix: netip.MustParsePrefix("127.0.9.0/30")}

	var got []string

	for range 3 {
		address, err := a.take("shop/api")
		if err != nil {
			t.Fatal(err)
		}

		got = append(got, address.String())
	}

	if diff := cmp.Diff([]string{"127.0.9.1", "127.0.9.2", "127.0.9.3"}, got); diff != "" {
		t.Error(diff)
	}

	if address, err := a.take("shop/api"); err == nil {
		t.Errorf("%s is from outside the network", address)
	}

	a.give("shop/api", netip.MustParseAddr("127.0.9.2"))

	if address, err := a.take("shop/api"); err != nil || address.String() != "127.0.9.2" {
		t.Errorf("got %s (%v), want the address that is free again", address, err)
	}
}

func TestReservedAddressesAreForTheirPods(t *testing.T) {
	t.Parallel()

	reserved := reservations{}
	if err := reserved.Set("shop/db-0=127.0.9.1"); err != nil {
		t.Fatal(err)
	}

	if err := reserved.Set("db-0=127.0.9.1"); err == nil {
		t.Error("a name without its namespace was accepted")
	}

	a := addresses{prefix: netip.MustParsePrefix("127.0.9.0/30"), reserved: reserved}

	for _, test := range []struct{ pod, want string }{
		{"shop/api", "127.0.9.2"}, {"shop/db-0", "127.0.9.1"}, {"shop/other", "127.0.9.3"},
	} {
		got, err := a.take(test.pod)
		if err != nil || got.String() != test.want {
			t.Errorf("%s got %s (%v), want %s", test.pod, got, err, test.want)
		}

		a.give(test.pod, got)

		if again, err := a.take(test.pod); err != nil || again != got {
			t.Errorf("%s got %s (%v) the second time, want %s", test.pod, again, err, got)
		}
	}
}

func TestSupported(t *testing.T) {
	t.Parallel()

	good := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{
		Name: "api", Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}},
	}}}
	if err := supported(&good); err != nil {
		t.Error(err)
	}

	for want, change := range map[string]func(*corev1.PodSpec){
		"init containers":     func(s *corev1.PodSpec) { s.InitContainers = s.Containers },
		"one container":       func(s *corev1.PodSpec) { s.Containers = append(s.Containers, s.Containers[0]) },
		"host's namespaces":   func(s *corev1.PodSpec) { s.HostNetwork = true },
		"but Always":          func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyNever },
		"workingDir":          func(s *corev1.PodSpec) { s.Containers[0].WorkingDir = "/x" },
		"but a preStop sleep": func(s *corev1.PodSpec) { s.Containers[0].Lifecycle.PreStop.Sleep = nil },
	} {
		spec := good.DeepCopy()
		change(spec)

		if err := supported(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestStatusFollowsTheContainer(t *testing.T) {
	t.Parallel()

	p := &pod{spec: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "api"}}}}}
	s := &p.status
	asked := map[probeKind]*prober{startup: {}, readiness: {}}

	type seen struct {
		Phase    corev1.PodPhase
		Started  bool
		Ready    bool
		Restarts int32
	}

	var got []seen

	for _, change := range []func(){
		func() { s.wait("CreateContainerConfigError", "no Secret") },
		func() { s.run(&process{pid: 1}, asked) },
		func() { s.judge(verdict{readiness, true}) },
		func() { s.judge(verdict{startup, true}) },
		func() { s.judge(verdict{readiness, false}) },
		func() { s.ended(&process{pid: 1, code: 1}) },
		func() { s.run(&process{pid: 2}, nil) },
	} {
		change()

		status := s.render(p)
		container := status.ContainerStatuses[0]
		ready := status.Conditions[3]

		if (ready.Status == corev1.ConditionTrue) != container.Ready || ready.Type != corev1.PodReady {
			t.Errorf("condition %v beside a container that is ready: %t", ready, container.Ready)
		}

		got = append(got, seen{status.Phase, *container.Started, container.Ready, container.RestartCount})
	}

	want := []seen{
		{corev1.PodPending, false, false, 0},
		{corev1.PodRunning, false, false, 0},
		{corev1.PodRunning, false, false, 0},
		{corev1.PodRunning, true, true, 0},
		{corev1.PodRunning, true, false, 0},
		{corev1.PodRunning, false, false, 0},
		{corev1.PodRunning, true, true, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
