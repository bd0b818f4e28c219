package measure

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of /proc/<pid>/stat, 1/100 s on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// ProcessCPU is the time that processes and all that descends from them have used so far, ended children included.
func ProcessCPU(roots ...int) (time.Duration, error) {
	table, err := processes()
	if err != nil {
		return 0, err
	}
	var total time.Duration
	for pid, entry := range table {
		if descends(table, pid, roots) {
			total += entry.used
		}
	}
	return total, nil
}

// OwnCPU is the time that this process has used so far.
func OwnCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

type processEntry struct {
	parent int
	used   time.Duration
}

func processes() (map[int]processEntry, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	table := make(map[int]processEntry, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // It has ended since.
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		if table[pid], err = parseStat(content); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return table, nil
}

// parseStat reads the parent and the four times: its own in user and kernel mode, and those of children it waited for.
func parseStat(content []byte) (processEntry, error) {
	// The fields after the program's name, which may itself hold spaces and parentheses.
	const parent, utime, end = 1, 11, 15
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < end {
		return processEntry{}, fmt.Errorf("%d fields", len(fields))
	}
	var entry processEntry
	var err error
	if entry.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return processEntry{}, err
	}
	for _, field := range fields[utime:end] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return processEntry{}, err
		}
		entry.used += time.Duration(ticks) * tick
	}
	return entry, nil
}

func descends(table map[int]processEntry, pid int, roots []int) bool {
	for ; pid > 0; pid = table[pid].parent {
		for _, root := range roots {
			if pid == root {
				return true
			}
		}
	}
	return false
}
