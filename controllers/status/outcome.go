package status

import (
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// Outcome is what a step, or a whole pass, came to without an error. The zero Outcome is [Done] in the ordinary way.
type Outcome struct {
	verdict verdict
	reason  string
	message string
	after   time.Duration
}

type verdict int

const (
	done verdict = iota
	waiting
	stalled
)

// Done means that the object does what its spec asks for; the reason and message are those of its condition Ready.
func Done(reason, message string) Outcome {
	return Outcome{verdict: done, reason: reason, message: message}
}

// Wait means that the object is on its way and is looked at again after a while; 0 waits for a watch.
func Wait(after time.Duration, reason, message string) Outcome {
	return Outcome{verdict: waiting, reason: reason, message: message, after: after}
}

// Stall means that the controller cannot go on before somebody changes something.
func Stall(reason, message string) Outcome {
	return Outcome{verdict: stalled, reason: reason, message: message}
}

// Again asks for another pass after a while, where no watch tells of what may change.
func (o Outcome) Again(after time.Duration) Outcome {
	o.after = after

	return o
}

// With adds to the message.
func (o Outcome) With(more string) Outcome {
	o.message += more

	return o
}

// IsDone tells whether the next step may follow.
func (o Outcome) IsDone() bool { return o.verdict == done }

// Reason is the reason given.
func (o Outcome) Reason() string { return o.reason }

// Message is the message given.
func (o Outcome) Message() string { return o.message }

// RetryError is a failure that may pass. Its reason and message go to status; its cause, which may name hosts and
// users, goes to the log only.
type RetryError struct {
	Reason  string
	Message string
	Cause   error
}

func (e *RetryError) Error() string {
	return strings.TrimSuffix(e.Message, ".") + ": " + e.Cause.Error()
}

func (e *RetryError) Unwrap() error { return e.Cause }

// Retry wraps the cause of a failure that may pass with what status may say of it.
func Retry(reason, message string, cause error) error {
	return &RetryError{Reason: reason, Message: message, Cause: cause}
}

// explain returns what status may say of an error.
func explain(err error) (reason, message string) {
	if retry := (*RetryError)(nil); errors.As(err, &retry) {
		return retry.Reason, retry.Message
	}

	if answer := apierrors.APIStatus(nil); errors.As(err, &answer) {
		return v1alpha1.ReasonRetrying, "The Kubernetes API refused a request: " + answer.Status().Message
	}

	return v1alpha1.ReasonRetrying, "A step failed and is tried again; the operator's log has the cause."
}
