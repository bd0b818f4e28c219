package pgtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInstalledPrefersTheNewest(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	for _, version := range []string{"9.6", "14", "17", "15"} {
		if err := os.MkdirAll(filepath.Join(root, version, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
	}

	got := installed([]string{filepath.Join(root, "*", "bin")})
	for i, dir := range got {
		got[i], _ = filepath.Rel(root, dir)
	}

	want := []string{"17/bin", "15/bin", "14/bin", "9.6/bin"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestMissingServerSaysWhatToInstall(t *testing.T) {
	t.Parallel()

	if message := ErrNotInstalled.Error(); !strings.Contains(message, "make deps") || strings.Contains(message, "\n") {
		t.Errorf("not one line naming the remedy: %s", message)
	}
}

func TestClosedFolderIsExplained(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only root hands folders to another account")
	}

	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}

	server, err := Start(t.Context(), Options{Dir: filepath.Join(closed, "data")})
	if err == nil {
		t.Fatal("started in a closed folder", server.Stop())
	}

	if !strings.Contains(err.Error(), "may not enter "+closed) {
		t.Errorf("the error does not name the closed folder: %v", err)
	}
}
