package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const version = "v1.2.3+four"

// write builds the stand-in program's image into a new directory.
func write(t *testing.T, epoch string, args ...string) string {
	t.Helper()

	out := t.TempDir()
	args = append([]string{
		"-source", filepath.Join("testdata", "program"), "-package", ".", "-out", out,
		"-version", version, "-platforms", "linux/" + runtime.GOARCH,
	}, args...)

	if err := run(t.Context(), args, epoch, t.Output()); err != nil {
		t.Fatalf("image: %v", err)
	}

	return out
}

func loadDocker(t *testing.T, out string) v1.Image {
	t.Helper()

	img, err := tarball.ImageFromPath(filepath.Join(out, "deadletter.tar"), nil)
	if err != nil {
		t.Fatalf("load the docker archive: %v", err)
	}

	return img
}

func loadOCI(t *testing.T, out string) v1.ImageIndex {
	t.Helper()

	dir := t.TempDir()
	untar(t, filepath.Join(out, "deadletter-oci.tar"), dir)

	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatalf("load the OCI layout: %v", err)
	}

	manifest, err := root.IndexManifest()
	if err != nil {
		t.Fatalf("read the layout's index: %v", err)
	}

	if len(manifest.Manifests) != 1 {
		t.Fatalf("the layout holds %d entries, want 1", len(manifest.Manifests))
	}

	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatalf("read the image index: %v", err)
	}

	return index
}

func untar(t *testing.T, archive, dir string) {
	t.Helper()

	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = file.Close() }()

	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}

		if err != nil {
			t.Fatalf("read %s: %v", archive, err)
		}

		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = copyTo(path, reader)
		}

		if err != nil {
			t.Fatalf("unpack %s: %v", header.Name, err)
		}
	}
}

func copyTo(path string, from io.Reader) error {
	content, err := io.ReadAll(from)
	if err != nil {
		return err
	}

	return os.WriteFile(path, content, 0o600)
}

// file is what an image holds under a name.
type file struct {
	header  tar.Header
	content []byte
}

func filesOf(t *testing.T, img v1.Image) map[string]file {
	t.Helper()

	stream := mutate.Extract(img)

	defer func() { _ = stream.Close() }()

	files := map[string]file{}

	for reader := tar.NewReader(stream); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}

		if err != nil {
			t.Fatalf("read the image's files: %v", err)
		}

		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatalf("read %s: %v", header.Name, err)
		}

		files[strings.TrimSuffix(header.Name, "/")] = file{header: *header, content: content}
	}
}

func TestArchivesHoldTheSameImage(t *testing.T) {
	t.Parallel()

	out := write(t, "")

	docker, err := loadDocker(t, out).ConfigName()
	if err != nil {
		t.Fatal(err)
	}

	manifest, err := loadOCI(t, out).IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	img, err := loadOCI(t, out).Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}

	oci, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}

	if docker != oci {
		t.Errorf("image id: docker archive %s, OCI layout %s", docker, oci)
	}
}

func TestFilesBelongToRootAndNothingElseIsThere(t *testing.T) {
	t.Parallel()

	files := filesOf(t, loadDocker(t, write(t, "1700000000")))

	want := map[string]int64{"deadletter": 0o555, "etc": 0o755, "etc/group": 0o644, "etc/passwd": 0o644}
	for name, mode := range want {
		got, ok := files[name]
		if !ok {
			t.Errorf("%s is missing", name)

			continue
		}

		if got.header.Mode != mode || got.header.Uid != 0 || got.header.Gid != 0 {
			t.Errorf("%s: mode %o owner %d:%d, want mode %o owner 0:0",
				name, got.header.Mode, got.header.Uid, got.header.Gid, mode)
		}

		if !got.header.ModTime.Equal(time.Unix(1700000000, 0)) {
			t.Errorf("%s: modified %s, want SOURCE_DATE_EPOCH", name, got.header.ModTime)
		}
	}

	for name := range files {
		if _, ok := want[name]; !ok {
			t.Errorf("unexpected file %s", name)
		}
	}
}

func TestBinaryIsStaticAndRuns(t *testing.T) {
	t.Parallel()

	binary := filesOf(t, loadDocker(t, write(t, "")))["deadletter"].content

	parsed, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}

	if parsed.Section(".interp") != nil || parsed.Section(".dynamic") != nil {
		t.Error("the binary has a dynamic section")
	}

	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, binary, 0o700); err != nil {
		t.Fatal(err)
	}

	output, err := exec.CommandContext(t.Context(), path).CombinedOutput()
	if err != nil || string(output) != "program "+version+"\n" {
		t.Errorf("it printed %q (%v), want its version", output, err)
	}
}

func TestDynamicBinaryIsRefused(t *testing.T) {
	t.Parallel()

	path, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no program of the system's to look at")
	}

	shell, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if err := requireStatic(shell); err == nil {
		t.Errorf("%s passed for a static binary", path)
	}
}

func TestSameSourcesGiveTheSameBytes(t *testing.T) {
	t.Parallel()

	first, second := write(t, "1700000000"), write(t, "1700000000")

	for _, name := range []string{"deadletter.tar", "deadletter-oci.tar"} {
		one, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}

		two, err := os.ReadFile(filepath.Join(second, name))
		if err != nil {
			t.Fatal(err)
		}

		if !bytes.Equal(one, two) {
			t.Errorf("%s differs between two builds", name)
		}
	}
}

func TestEveryPlatformIsInTheIndex(t *testing.T) {
	t.Parallel()

	index := loadOCI(t, write(t, "", "-platforms", "linux/amd64,linux/arm64"))

	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}

	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

	var got []string

	for _, entry := range manifest.Manifests {
		got = append(got, entry.Platform.String())

		img, err := index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}

		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}

		binary, err := elf.NewFile(bytes.NewReader(filesOf(t, img)["deadletter"].content))
		if err != nil {
			t.Fatal(err)
		}

		if config.Architecture != entry.Platform.Architecture || binary.Machine != machines[config.Architecture] {
			t.Errorf("%s: configured for %s, binary for %s", entry.Platform, config.Architecture, binary.Machine)
		}
	}

	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(got, want) {
		t.Errorf("platforms %v, want %v", got, want)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		args  []string
		epoch string
		want  string
	}{
		"no platform":     {args: []string{"-platforms", ""}, want: "want linux/ARCHITECTURE"},
		"other system":    {args: []string{"-platforms", "windows/amd64"}, want: "want linux/ARCHITECTURE"},
		"bad epoch":       {epoch: "yesterday", want: "SOURCE_DATE_EPOCH"},
		"unknown package": {args: []string{"-package", "./nowhere", "-source", "."}, want: "go build"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			args := append([]string{"-out", t.TempDir()}, test.args...)

			err := run(t.Context(), args, test.epoch, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one about %q", err, test.want)
			}
		})
	}
}
