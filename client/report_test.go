package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type cardError struct{ code int }

func (e *cardError) Error() string { return fmt.Sprintf("card %d", e.code) }

// tracedError keeps program counters as github.com/pkg/errors does: in a list of a type of its own.
type tracedError struct {
	error

	counters []frame
}

type frame uintptr

func (e tracedError) StackTrace() []frame { return e.counters }

// printedError keeps a printed stack.
type printedError struct{ error }

func (printedError) Stack() []byte { return []byte(strings.Repeat("line\n", 30)) }

func TestReports(t *testing.T) {
	t.Parallel()
	card := &cardError{7}
	for name, c := range map[string]struct {
		err  error
		want FailureReport
	}{
		"nil":         {nil, FailureReport{}},
		"plain":       {errors.New("no"), FailureReport{Error: "no", ErrorClass: "errors.errorString"}},
		"wrapped":     {fmt.Errorf("charge: %w", card), FailureReport{Error: "charge: card 7", ErrorClass: "client.cardError"}},
		"joined":      {errors.Join(card, errors.New("no")), FailureReport{Error: "card 7\nno", ErrorClass: "client.cardError"}},
		"two causes":  {fmt.Errorf("%w, %w", card, fs.ErrExist), FailureReport{Error: "card 7, file already exists", ErrorClass: "client.cardError"}},
		"permanent":   {Permanent(card), FailureReport{Error: "card 7", ErrorClass: "client.cardError", Permanent: true}},
		"category":    {WithCategory(card, External), FailureReport{Error: "card 7", ErrorClass: "client.cardError", Category: External}},
		"outermost":   {WithCategory(WithCategory(card, External), "MINE"), FailureReport{Error: "card 7", ErrorClass: "client.cardError", Category: "MINE"}},
		"retry after": {RetryAfter(card, 0), FailureReport{Error: "card 7", ErrorClass: "client.cardError", RetryAfter: new(time.Duration(0))}},
		"all of it": {
			fmt.Errorf("pay: %w", Permanent(WithCategory(RetryAfter(card, time.Minute), Validation))),
			FailureReport{
				Error: "pay: card 7", ErrorClass: "client.cardError", Category: Validation, Permanent: true,
				RetryAfter: new(time.Minute),
			},
		},
		"deadline":          {fmt.Errorf("x: %w", context.DeadlineExceeded), FailureReport{Error: "x: context deadline exceeded", ErrorClass: "context.deadlineExceededError", Category: Timeout}},
		"deadline of I/O":   {os.ErrDeadlineExceeded, FailureReport{Error: "i/o timeout", ErrorClass: "poll.DeadlineExceededError", Category: Timeout}},
		"cancelled":         {context.Canceled, FailureReport{Error: "context canceled", ErrorClass: "errors.errorString"}},
		"network's timeout": {&net.DNSError{IsTimeout: true, Err: "e", Name: "n"}, FailureReport{Error: "lookup n: e", ErrorClass: "net.DNSError", Category: Timeout}},
		"refused":           {&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, FailureReport{Error: "dial tcp: connect: connection refused", ErrorClass: "syscall.Errno"}},
		"timeout by name":   {WithCategory(context.DeadlineExceeded, External), FailureReport{Error: "context deadline exceeded", ErrorClass: "context.deadlineExceededError", Category: External}},
		"panic":             {&panicError{value: "boom"}, FailureReport{Error: "panic: boom", ErrorClass: "panic"}},
		"panic with error":  {&panicError{value: card}, FailureReport{Error: "panic: card 7", ErrorClass: "client.cardError"}},
		"ended":             {errGoexit, FailureReport{Error: errGoexit.Error(), ErrorClass: "errors.errorString"}},
	} {
		if diff := cmp.Diff(c.want, NewReport(c.err), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, wrap := range map[string]func(error) error{
		"Permanent": Permanent, "WithStack": WithStack,
		"WithCategory": func(err error) error { return WithCategory(err, External) },
		"RetryAfter":   func(err error) error { return RetryAfter(err, 1) },
	} {
		if wrap(nil) != nil {
			t.Errorf("%s makes an error of nil", name)
		}
		if !errors.Is(wrap(fs.ErrExist), fs.ErrExist) || wrap(fs.ErrExist).Error() != fs.ErrExist.Error() {
			t.Errorf("%s hides the error", name)
		}
	}
}

// origin is where the errors of the test come from; it is not inlined, so that it has a frame.
//
//go:noinline
func origin() (stacked, traced error) {
	counters := make([]uintptr, 10)
	counters = counters[:runtime.Callers(1, counters)]
	frames := make([]frame, len(counters))
	for i := range counters {
		frames[i] = frame(counters[i])
	}
	return WithStack(errors.New("no")), tracedError{errors.New("no"), frames}
}

func TestStacksBeginWhereTheErrorDid(t *testing.T) {
	t.Parallel()
	stacked, traced := origin()
	for name, err := range map[string]error{
		"WithStack":                    stacked,
		"StackTrace":                   traced,
		"wrapped":                      fmt.Errorf("x: %w", traced),
		"wrapped once more with stack": WithStack(stacked),
	} {
		lines := strings.Split(NewReport(err).StackTrace, "\n")
		if !strings.HasPrefix(lines[0], "deadletter.dev/deadletter/client.origin (") ||
			!strings.Contains(lines[0], "report_test.go:") ||
			!strings.HasPrefix(lines[1], "deadletter.dev/deadletter/client.TestStacksBeginWhereTheErrorDid (") {
			t.Errorf("%s: %q", name, lines)
		}
	}
	if lines := strings.Count(NewReport(printedError{errors.New("no")}).StackTrace, "line"); lines != maxStackLines {
		t.Errorf("%d lines of a printed stack", lines)
	}
	if stack := NewReport(errors.New("no")).StackTrace; stack != "" {
		t.Errorf("a plain error has the stack %q", stack)
	}
}

func TestLegible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		"plain\n\ttext ü":          "plain\n\ttext ü",
		"\x00\x1b[31m\x7f\xff":     `\x00\x1b[31m\x7f\xff`,
		strings.Repeat("a", 30):    strings.Repeat("a", 30),
		strings.Repeat("a", 31):    strings.Repeat("a", 22) + cutMark,
		strings.Repeat("ü", 16):    strings.Repeat("ü", 11) + cutMark,
		strings.Repeat("\x00", 31): strings.Repeat(`\x00`, 5) + `\x` + cutMark,
	} {
		if got := legible(text, 30); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
