package assets

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

// source is the module that pins what is built.
type source struct {
	dir string
	// kubernetes and etcd are module versions, such as v1.37.2.
	kubernetes, etcd string
	// sum changes whenever a dependency, the compiler or the platform does.
	sum string
}

// findSource looks for the module beside the caller's working directory or one of its parents.
func findSource() (source, error) {
	dir, err := os.Getwd()
	if err != nil {
		return source{}, err
	}

	for {
		for _, relative := range []string{"kubernetes", "hack/controlplane/kubernetes"} {
			found, err := readSource(filepath.Join(dir, relative))
			if !errors.Is(err, fs.ErrNotExist) {
				return found, err
			}
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return source{}, errors.New("hack/controlplane/kubernetes/go.mod not found: run inside the repository")
		}

		dir = parent
	}
}

func readSource(dir string) (source, error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return source{}, err
	}

	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return source{}, err
	}

	found := source{dir: dir}

	if found.kubernetes, err = required(mod, "k8s.io/kubernetes"); err != nil {
		return source{}, err
	}

	if found.etcd, err = required(mod, "go.etcd.io/etcd/server/v3"); err != nil {
		return source{}, err
	}

	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%s\n%s/%s\n%s", mod, sum, runtime.GOOS, runtime.GOARCH, runtime.Version())
	found.sum = hex.EncodeToString(hash.Sum(nil))[:12]

	return found, nil
}

// required reads a requirement's version from a go.mod.
func required(mod []byte, module string) (string, error) {
	pattern := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(module) + `\s+(v\S+)`)

	match := pattern.FindSubmatch(mod)
	if match == nil {
		return "", fmt.Errorf("hack/controlplane/kubernetes/go.mod does not require %s", module)
	}

	return string(match[1]), nil
}
