package coalesce

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errGoroutineEnded goes to the callers of a flush that ended its goroutine (runtime.Goexit), or whose error Retry
// panicked over.
var errGoroutineEnded = errors.New("the goroutine that ran the calls ended before it had answered all")

// PanicError is what flush panicked with.
type PanicError struct {
	// Value is the argument of panic.
	Value any
	// Stack is where it happened, as debug.Stack writes it.
	Stack []byte
}

func newPanicError(value any) *PanicError {
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// Error names the value, not the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns the value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// CountError says that flush has not answered each of its calls once. It counts as done: it is not tried again.
type CountError struct {
	Calls, Answers int
}

func (e *CountError) Error() string {
	return fmt.Sprintf("%d answers to %d calls", e.Answers, e.Calls)
}
