package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// entry is one line of the system's process table.
type entry struct {
	pid, parent int
	// state is a letter, T for a process that a signal has stopped.
	state string
}

// commandLine returns a process's arguments, or nothing when it has ended.
func commandLine(pid int) string {
	if content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return string(bytes.ReplaceAll(content, []byte{0}, []byte{' '}))
	}

	if hasProc() {
		return ""
	}

	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}

	return string(out)
}

// children lists the direct children of a process. Postgres backends leave the process group, so only their parent
// identifies them.
func children(parent int) ([]int, error) {
	table, err := processes()
	if err != nil {
		return nil, err
	}

	var found []int

	for _, entry := range table {
		if entry.parent == parent {
			found = append(found, entry.pid)
		}
	}

	return found, nil
}

// stopped reports whether a SIGSTOP has taken effect.
func stopped(pid int) bool {
	table, err := processes()
	if err != nil {
		return false
	}

	for _, entry := range table {
		if entry.pid == pid {
			return strings.HasPrefix(entry.state, "T")
		}
	}

	return false
}

func processes() ([]entry, error) {
	if hasProc() {
		return processesByProc()
	}

	return processesByPS()
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")

	return err == nil
}

func processesByProc() ([]entry, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}

	var table []entry

	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			// The process has ended since the listing.
			continue
		}

		if found, ok := parseStat(content); ok {
			table = append(table, found)
		}
	}

	return table, nil
}

// parseStat reads a line such as "12 (name) S 1 ...". The name may itself contain spaces and parentheses.
func parseStat(content []byte) (entry, bool) {
	const wanted = 2

	pid, _, ok := strings.Cut(string(content), " ")
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))

	if !ok || len(fields) < wanted {
		return entry{}, false
	}

	found := entry{state: fields[0]}

	var err error
	if found.pid, err = strconv.Atoi(pid); err != nil {
		return entry{}, false
	}

	if found.parent, err = strconv.Atoi(fields[1]); err != nil {
		return entry{}, false
	}

	return found, true
}

func processesByPS() ([]entry, error) {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}

	var table []entry

	for line := range strings.Lines(string(out)) {
		var found entry
		if _, err := fmt.Sscan(line, &found.pid, &found.parent, &found.state); err == nil {
			table = append(table, found)
		}
	}

	return table, nil
}
