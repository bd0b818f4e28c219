package progress

import (
	"errors"
	"strings"
	"testing"
)

func TestStep(t *testing.T) {
	t.Parallel()

	cause := errors.New("no disk")

	for name, test := range map[string]struct {
		fail error
		want string
	}{
		"success": {nil, "[2/3] build etcd: 7 packages, 0s done\n"},
		"failure": {cause, "[2/3] build etcd: 7 packages, 0s FAILED\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var out strings.Builder

			printer := &Printer{out: &out}

			err := printer.Step(2, 3, "build etcd", func(detail func(string)) error {
				detail("7 packages")

				return test.fail
			})

			if !errors.Is(err, test.fail) {
				t.Errorf("error %v, want %v", err, test.fail)
			}

			if out.String() != test.want {
				t.Errorf("printed %q, want %q", out.String(), test.want)
			}
		})
	}
}
