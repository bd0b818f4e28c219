package kubetest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// watchScript waits until its standard input ends, which happens when the caller is gone for whatever reason. It then
// kills every process whose arguments name the control plane's folder, and removes the folder. The folder comes by the
// environment, so that the script does not find itself.
const watchScript = `
cat >/dev/null
if [ -d /proc/self ]; then
	for process in /proc/[0-9]*; do
		tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -qF -- "$KUBETEST_DIR" && kill -9 "${process#/proc/}"
	done
else
	ps -axo pid=,args= | grep -F -- "$KUBETEST_DIR" | while read -r pid rest; do kill -9 "$pid"; done
fi 2>/dev/null
rm -rf -- "$KUBETEST_DIR"
exit 0
`

// watchdog is the process that cleans up after a test process that could not.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

func startWatchdog(dir string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchScript)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "KUBETEST_DIR="+dir)
	// Ctrl-C must end the tests and leave the watchdog to its work.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}

	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}

	return &watchdog{cmd: cmd, pipe: pipe}, nil
}

// release ends the watchdog after the control plane has stopped.
func (w *watchdog) release() error {
	if err := w.pipe.Close(); err != nil {
		return err
	}

	return w.cmd.Wait()
}
