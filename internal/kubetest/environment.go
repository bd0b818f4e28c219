package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// componentTimeout is generous because packages start their control planes side by side.
const componentTimeout = 2 * time.Minute

// Folders of one control plane.
const (
	dataFolder        = "etcd"
	certificateFolder = "certificates"
)

// environment is a running control plane and the process that ends it when this one cannot.
type environment struct {
	control  *envtest.Environment
	config   *rest.Config
	dir      string
	watchdog *watchdog
}

// shared is the one control plane of the test process. It ends with the process, through its watchdog at the latest.
var shared struct {
	once        sync.Once
	environment *environment
	err         error
}

// Start returns the administrator's access to the control plane that all tests of the process share, starting it
// first if need be. The caller may change the configuration: it is a copy.
func Start(t testing.TB) *rest.Config {
	t.Helper()

	shared.once.Do(func() {
		shared.environment, shared.err = startEnvironment()
	})

	if shared.err != nil {
		t.Fatal(shared.err)
	}

	return rest.CopyConfig(shared.environment.config)
}

// Main runs a package's tests and stops the control plane before the process ends. It is optional: without it the
// control plane is stopped just after the process has ended.
func Main(m *testing.M) {
	code := m.Run()

	if shared.environment != nil {
		if err := shared.environment.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)

			code = max(code, 1)
		}
	}

	os.Exit(code)
}

func startEnvironment() (*environment, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}

	binaries, err := assets(root)
	if err != nil {
		return nil, err
	}

	dir, err := temporaryDir()
	if err != nil {
		return nil, err
	}

	dog, err := startWatchdog(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}

	started := &environment{control: describe(root, binaries, dir), dir: dir, watchdog: dog}

	if started.config, err = started.control.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the control plane: %w", err), started.stop())
	}

	return started, nil
}

// temporaryDir creates the control plane's folder.
func temporaryDir() (string, error) {
	dir, err := os.MkdirTemp("", "kubetest-")
	if err != nil {
		return "", err
	}

	for _, name := range []string{dataFolder, certificateFolder} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}

	return dir, nil
}

// describe keeps all files of the control plane in dir, whose name thereby appears in the command lines of its
// processes; the watchdog finds them by it.
func describe(root, binaries, dir string) *envtest.Environment {
	control := &envtest.Environment{
		BinaryAssetsDirectory:    binaries,
		CRDDirectoryPaths:        []string{filepath.Join(root, "config", "crd", "bases")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: componentTimeout,
		ControlPlaneStopTimeout:  componentTimeout,
	}

	control.ControlPlane.Etcd = &envtest.Etcd{DataDir: filepath.Join(dir, dataFolder)}
	control.ControlPlane.APIServer = &envtest.APIServer{CertDir: filepath.Join(dir, certificateFolder)}

	return control
}

func (e *environment) stop() error {
	return errors.Join(e.control.Stop(), os.RemoveAll(e.dir), e.watchdog.release())
}
