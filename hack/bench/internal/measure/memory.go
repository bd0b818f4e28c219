package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Memory is what a process holds and has held at most, in bytes.
type Memory struct{ Resident, Peak int64 }

// ReadMemory looks at a process.
func ReadMemory(pid int) (Memory, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	return parseStatus(content)
}

func parseStatus(content []byte) (memory Memory, err error) {
	for line := range bytes.Lines(content) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		var into *int64
		switch string(name) {
		case "VmRSS":
			into = &memory.Resident
		case "VmHWM":
			into = &memory.Peak
		default:
			continue
		}
		fields := bytes.Fields(value)
		if len(fields) != 2 || string(fields[1]) != "kB" {
			return memory, fmt.Errorf("unexpected line %q", line)
		}
		kilobytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil {
			return memory, err
		}
		*into = kilobytes << 10
	}
	return memory, nil
}
