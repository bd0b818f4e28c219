package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func mounting(path string, volume corev1.VolumeSource) (*sources, *corev1.Container) {
	s := testSources()
	s.pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: volume}}

	return s, &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: path}}}
}

func secretVolume(items ...corev1.KeyToPath) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "db", Items: items}}
}

func TestMountPutsContentsAtThePath(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		volume corev1.VolumeSource
		want   map[string]string
	}{
		"secret": {secretVolume(), map[string]string{"uri": "postgres://", "other": "x"}},
		"items":  {secretVolume(corev1.KeyToPath{Key: "uri", Path: "a/b"}), map[string]string{"a/b": "postgres://"}},
		"config map": {
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
			}},
			map[string]string{"LEVEL": "debug"},
		},
		"empty directory": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			root := t.TempDir()
			path := filepath.Join(root, "etc", "deep", "mount")
			s, container := mounting(path, test.volume)
			v := volumes{dir: filepath.Join(root, "pod")}

			if err := v.mount(s, container, false); err != nil {
				t.Fatal(err)
			}

			for file, want := range test.want {
				got, err := os.ReadFile(filepath.Join(path, file))
				if err != nil || string(got) != want {
					t.Errorf("%s holds %q (%v), want %q", file, got, err, want)
				}
			}

			if err := os.WriteFile(filepath.Join(path, "new"), nil, 0o600); err != nil {
				t.Error(err)
			}

			if err := v.remove(); err != nil {
				t.Fatal(err)
			}

			left, err := os.ReadDir(root)
			if err != nil || len(left) > 0 {
				t.Errorf("%v (%v) is left", left, err)
			}
		})
	}
}

func TestMountLeavesAloneWhatIsThere(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	mine := filepath.Join(root, "mine")

	if err := os.WriteFile(mine, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}

	for path, volume := range map[string]corev1.VolumeSource{mine: secretVolume(), root: secretVolume()} {
		s, container := mounting(path, volume)
		v := volumes{dir: filepath.Join(root, "pod")}

		if err := v.mount(s, container, false); err == nil {
			t.Errorf("%s was replaced", path)
		}

		if err := v.remove(); err != nil {
			t.Error(err)
		}
	}

	got, err := os.ReadFile(mine)
	if diff := cmp.Diff("precious", string(got)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestMountTakesAWritableFolderForAnEmptyOne(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	s, container := mounting(root, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	v := volumes{dir: filepath.Join(root, "pod")}

	if err := v.mount(s, container, false); err != nil {
		t.Fatal(err)
	}

	if err := v.remove(); err != nil {
		t.Error(err)
	}

	if _, err := os.Stat(root); err != nil {
		t.Error(err)
	}
}

func TestMountRefusesOtherVolumes(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	s, container := mounting(filepath.Join(root, "x"),
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
	v := volumes{dir: filepath.Join(root, "pod")}

	if err := v.mount(s, container, false); err == nil {
		t.Error("a hostPath volume was mounted")
	}
}

func TestStandInIsToldOfItsVolumes(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	s, container := mounting("/var/lib/data", corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"},
	})
	v := volumes{dir: filepath.Join(root, "pod"), claims: filepath.Join(root, "claims")}

	if err := v.mount(s, container, true); err != nil {
		t.Fatal(err)
	}

	folder := filepath.Join(root, "claims", s.pod.Namespace, "data-db-0")
	want := []string{"HOSTPODS_ADDRESS=127.77.0.9", `HOSTPODS_VOLUMES={"/var/lib/data":"` + folder + `"}`}

	if diff := cmp.Diff(want, v.placement(netip.MustParseAddr("127.77.0.9"))); diff != "" {
		t.Error(diff)
	}

	if err := os.WriteFile(filepath.Join(folder, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	if err := v.remove(); err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(filepath.Join(folder, "kept")); err != nil {
		t.Errorf("what is on a claim ended with its pod: %v", err)
	}
}

func TestMountNeedsAFolderForClaims(t *testing.T) {
	t.Parallel()

	s, container := mounting("/var/lib/data", corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"},
	})
	v := volumes{dir: filepath.Join(t.TempDir(), "pod")}

	if err := v.mount(s, container, true); err == nil {
		t.Error("a claim was mounted from nowhere")
	}
}
