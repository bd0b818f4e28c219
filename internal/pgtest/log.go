package pgtest

import (
	"errors"
	"os"
	"slices"
	"strings"
)

const tailLines = 40

// tail returns the last lines of the server's log that the filter keeps.
func (s *Server) tail(keep func(line string) bool) string {
	content, err := os.ReadFile(s.layout.log())
	if err != nil {
		return err.Error()
	}

	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(content)), "\n"), func(line string) bool {
		return !keep(line)
	})

	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// logError presents the end of the log as an error, for servers that do not come up.
func (s *Server) logError() error {
	return errors.New("server log:\n" + s.tail(func(string) bool { return true }))
}
