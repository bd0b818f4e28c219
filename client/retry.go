package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// safety says what repeating a request may do.
type safety int

const (
	// readOnly requests change nothing.
	readOnly safety = iota
	// once is for changes that must not be made twice: repeated only when it is certain that nothing was changed.
	once
	// repeatable changes have the same effect however often they arrive: keys and lease tokens see to it.
	repeatable
)

const (
	firstWait = 100 * time.Millisecond
	// longestWait bounds the wait that grows with each try.
	longestWait = 10 * time.Second
	// longestRetryAfter is how long a server may make a call wait; beyond it the call fails, with the time in its error.
	longestRetryAfter = time.Minute
)

// phase is how far a try came that has no problem for an answer.
type phase int

const (
	// underway tries broke off after they were sent, or may have been.
	underway phase = iota
	// unsent tries never began: there was no token, or no time left.
	unsent
	// answered tries have an answer that cannot be understood.
	answered
)

// try is how one try of a request ended. Its zero value is success.
type try struct {
	// problem is the server's answer; nil when there was none, and err says why.
	problem *Error
	err     error
	phase   phase
}

func (t try) ok() bool { return t.problem == nil && t.err == nil }

// changedNothing reports that the request certainly had no effect.
func (t try) changedNothing() bool {
	if t.problem == nil {
		return t.phase == unsent || neverSent(t.err)
	}
	return errors.Is(t.problem, ErrOverloaded) || t.problem.Status < http.StatusInternalServerError
}

// decides reports that the answer is about the state of what was to be changed, so that it can be judged in the light
// of what earlier tries may have done.
func (t try) decides() bool {
	for _, kind := range []error{ErrNotProcessing, ErrStaleLease, ErrNotFound, ErrNoLongerKept} {
		if t.problem != nil && errors.Is(t.problem, kind) {
			return true
		}
	}
	return false
}

// final is the error to return for the last try.
func (t try) final(doubtful bool) error {
	err := t.err
	if t.problem != nil {
		err = t.problem
	}
	if doubtful {
		return fmt.Errorf("%w (%w)", err, ErrUnknownOutcome)
	}
	return err
}

// neverSent recognises errors from before there was a connection to send anything over.
func neverSent(err error) bool {
	var (
		unknownHost *net.DNSError
		broken      *net.OpError
	)
	return errors.As(err, &unknownHost) || errors.As(err, &broken) && broken.Op == "dial"
}

// mayPass reports that the same request may succeed later.
func (t try) mayPass() bool {
	if t.problem == nil {
		return t.phase == underway
	}
	switch t.problem.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// repeat reports whether a request that ended like this should be sent again.
func (t try) repeat(safety safety) bool {
	return t.mayPass() && (safety != once || t.changedNothing())
}

// wait is how long to wait before the next try, counted from 1, and whether to make it at all: not when the server asks
// for more patience than there is. random is from [0, 1).
func (t try) wait(number int, random float64) (time.Duration, bool) {
	wait := longestWait
	if shift := number - 1; shift < 10 {
		wait = min(firstWait<<shift, longestWait)
	}
	// Between half and all of it: callers that failed together must not come back together.
	wait -= time.Duration(random * float64(wait) / 2)
	if t.problem == nil || t.problem.RetryAfter == 0 {
		return wait, true
	}
	// What the server asks for is the least; the rest spreads those it has asked at the same time.
	return t.problem.RetryAfter + wait, t.problem.RetryAfter <= longestRetryAfter
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return max(0, time.Duration(min(seconds, int(maxSeconds)))*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// enoughTime reports that a wait ends before the context does.
func enoughTime(ctx context.Context, now time.Time, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || now.Add(wait).Before(deadline)
}
