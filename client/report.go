package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Permanent marks an error as one that no retry mends: the message is dead at once.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// WithCategory gives an error a category: one of the package's, or a name of your own of at most 64 bytes. Of several,
// the outermost counts.
func WithCategory(err error, category Category) error {
	if err == nil {
		return nil
	}
	return &categoryError{err, category}
}

// RetryAfter lets the message wait this long before it is tried again, from 0 to 90 days, in place of the queue's
// backoff. The failure still counts.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &delayError{err, d}
}

// WithStack keeps with an error the stack of where this is called, so that the failure's record shows it. Errors of
// libraries that keep stacks, by methods StackTrace or Stack, and panics need no help.
func WithStack(err error) error {
	if err == nil {
		return nil
	}
	return &stackError{err, capture(1)}
}

type (
	permanentError struct{ error }
	categoryError  struct {
		error

		category Category
	}
	delayError struct {
		error

		delay time.Duration
	}
	stackError struct {
		error

		frames []uintptr
	}
	// panicError is a panic of a handler, or its end by runtime.Goexit.
	panicError struct {
		value  any
		frames []uintptr
	}
)

func (e *permanentError) Unwrap() error { return e.error }
func (e *categoryError) Unwrap() error  { return e.error }
func (e *delayError) Unwrap() error     { return e.error }
func (e *stackError) Unwrap() error     { return e.error }

// Error says what the handler panicked with.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap is the error that the handler panicked with, if it was one.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// errGoexit stands for a handler that ended its goroutine instead of returning.
var errGoexit = errors.New("the handler ended its goroutine with runtime.Goexit")

// NewReport describes an error as the failure of a message, as [Worker] does with what a handler returns:
//
//   - the message is that of the whole error;
//   - the category is that of [WithCategory], or TIMEOUT if the error is that of a deadline; else the API works it out;
//   - the class is the type of the innermost error, such as net.OpError; of several joined ones, that of the first;
//   - the stack is that of a panic, of [WithStack], or of an error that has a method StackTrace or Stack;
//   - [Permanent] and [RetryAfter] are as they say.
func NewReport(err error) FailureReport {
	if err == nil {
		return FailureReport{}
	}
	report := FailureReport{
		Error: err.Error(), Category: categoryOf(err), ErrorClass: classOf(err), StackTrace: stackOf(err),
		Permanent: isPermanent(err),
	}
	if delayed := new(delayError); errors.As(err, &delayed) {
		report.RetryAfter = new(delayed.delay)
	}
	return report
}

func isPermanent(err error) bool {
	permanent := new(permanentError)
	return errors.As(err, &permanent)
}

func categoryOf(err error) Category {
	if named := new(categoryError); errors.As(err, &named) {
		return named.category
	}
	var timeout interface{ Timeout() bool }
	isTimeout := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
	if isTimeout {
		return Timeout
	}
	return ""
}

// classOf is the type of the innermost error, without the star of a pointer. A panic with something that is no error
// has the class panic.
func classOf(err error) string {
	eachError(err, func(inner error) { err = inner })
	if _, ok := err.(*panicError); ok { //nolint:errorlint // this error, not one that it wraps
		return "panic"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
}

// eachError visits an error and all that it wraps, outermost first; of joined ones the first.
func eachError(err error, visit func(error)) {
	for err != nil {
		visit(err)
		inner := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			if all := joined.Unwrap(); len(all) > 0 {
				inner = all[0]
			}
		}
		err = inner
	}
}

// capture returns the stack of the caller, without as many of its innermost frames.
func capture(skip int) []uintptr {
	const runtimeFrames, deepest = 2, 64
	frames := make([]uintptr, deepest)
	return frames[:runtime.Callers(runtimeFrames+skip, frames)]
}
