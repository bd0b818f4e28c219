package pgtest

import (
	"fmt"
	"io"
	"os/exec"
)

// watchScript waits until its standard input ends, which happens when the caller is gone for whatever reason. It then
// stops the process that the pid file names, if that really is the one, and removes a temporary folder.
const watchScript = `
dir=$1 pidfile=$2 argument=$3 temporary=$4
cat >/dev/null
serves() {
	if [ -d /proc/self ]; then tr '\0' ' ' <"/proc/$1/cmdline"; else ps -o args= -p "$1"; fi 2>/dev/null |
		grep -qF -- "$argument"
}
pid=$(head -n 1 "$pidfile" 2>/dev/null)
tries=0
while [ -n "$pid" ] && serves "$pid" && [ $tries -lt 100 ]; do
	[ $tries -eq 0 ] && kill -QUIT "$pid" 2>/dev/null
	[ $tries -eq 99 ] && kill -KILL "$pid" 2>/dev/null
	tries=$((tries + 1))
	sleep 0.1
done
[ "$temporary" = yes ] && rm -rf -- "$dir"
exit 0
`

// watchdog is the process that cleans up after a caller that could not.
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// watched is what a watchdog cleans up.
type watched struct {
	// dir is the process's folder, which is removed if it is temporary.
	dir       string
	temporary bool
	// pidFile names the process, and argument is one of its arguments, since its id may have gone to a stranger.
	pidFile, argument string
}

func startWatchdog(account account, it watched) (*watchdog, error) {
	remove := "no"
	if it.temporary {
		remove = "yes"
	}

	cmd := exec.Command("/bin/sh", "-c", watchScript, "pgtest-watchdog", it.dir, it.pidFile, it.argument, remove)
	cmd.Dir = "/"
	// The account's rights bound what a mistake could hit, and its own group keeps Ctrl-C away.
	cmd.SysProcAttr = account.attributes()

	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}

	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}

	return &watchdog{cmd: cmd, pipe: pipe}, nil
}

// release ends the watchdog after the server has stopped.
func (w *watchdog) release() error {
	if err := w.pipe.Close(); err != nil {
		return err
	}

	return w.cmd.Wait()
}
