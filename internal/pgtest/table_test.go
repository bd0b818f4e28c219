package pgtest

import (
	"os"
	"slices"
	"testing"
)

func TestParseStat(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		line string
		want entry
		ok   bool
	}{
		"plain":                 {"12 (postgres) S 7 12 12", entry{12, 7, "S"}, true},
		"name with parentheses": {"12 (a) R 9 (b)) T 7 12", entry{12, 7, "T"}, true},
		"truncated":             {"12 (postgres) S", entry{}, false},
		"no numbers":            {"x (postgres) S 7", entry{}, false},
		"empty":                 {"", entry{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got, ok := parseStat([]byte(test.line)); got != test.want || ok != test.ok {
				t.Errorf("got %+v, %v, want %+v, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

func TestProcessTablesAgree(t *testing.T) {
	t.Parallel()

	want := func(e entry) bool { return e.pid == os.Getpid() && e.parent == os.Getppid() }

	for name, list := range map[string]func() ([]entry, error){"proc": processesByProc, "ps": processesByPS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			table, err := list()
			if err != nil || len(table) == 0 {
				t.Skipf("not on this system: %v", err)
			}

			if !slices.ContainsFunc(table, want) {
				t.Errorf("this process is not among %d", len(table))
			}
		})
	}
}
