package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Lease is a hold on a claimed message; see [Message.Lease].
type Lease struct {
	Queue string
	ID    int64
	// Token proves the hold: a call with the token of a lease that is over changes nothing. Without a token a call acts on
	// whatever lease is current, unless the server forbids that, and is not repeated.
	Token string
}

// leaseJSON is a lease as the API takes it; ID is left out where the path names the message.
type leaseJSON struct {
	ID    int64  `json:"id,omitempty"`
	Token string `json:"lease_token,omitempty"`
}

// safety of a call on the lease: the token sees to it that the call acts once.
func (l Lease) safety() safety {
	if l.Token == "" {
		return once
	}
	return repeatable
}

// FailureReport is what a worker says of a failure. Nothing in it can keep the failure from being recorded: what is too
// long is cut.
type FailureReport struct {
	// Error is the error message; 4,096 bytes are kept.
	Error string
	// Category is the kind of failure; empty lets the API work it out from ErrorClass and Error.
	Category Category
	// ErrorClass is the type of the error; 256 bytes are kept.
	ErrorClass string
	// StackTrace is the stack, a frame a line; the last 20 lines are kept.
	StackTrace string
	// Permanent kills the message at once, retries left or not.
	Permanent bool
	// RetryAfter replaces the queue's backoff, from 0 to 90 days; nil leaves the wait to the queue.
	RetryAfter *time.Duration
	// Consumer replaces who claimed the message; nil leaves it.
	Consumer *Consumer
}

// reportJSON is a failure report as the API takes it.
type reportJSON struct {
	leaseJSON

	Error      string    `json:"error,omitempty"`
	Category   Category  `json:"category,omitempty"`
	ErrorClass string    `json:"error_class,omitempty"`
	StackTrace string    `json:"stack_trace,omitempty"`
	Retryable  *bool     `json:"retryable,omitempty"`
	RetryAfter *float64  `json:"retry_after_seconds,omitempty"`
	Consumer   *Consumer `json:"consumer,omitempty"`
}

func (r *FailureReport) wire(lease leaseJSON) reportJSON {
	report := reportJSON{
		leaseJSON:  lease,
		Error:      legible(r.Error, maxReasonBytes),
		Category:   Category(legible(strings.TrimSpace(string(r.Category)), maxCategoryBytes)),
		ErrorClass: legible(r.ErrorClass, maxErrorClassBytes),
		StackTrace: legible(r.StackTrace, maxStackBytes),
		Consumer:   r.Consumer,
	}
	if r.Permanent {
		report.Retryable = new(false)
	}
	if r.RetryAfter != nil {
		report.RetryAfter = new(r.RetryAfter.Seconds())
	}
	return report
}

// Succeed finishes a message. It returns [ErrStaleLease] or [ErrNotProcessing] when the lease was over: the message
// will be, or was, handled again.
//
// When an answer is lost the call is repeated; if the repetition finds the lease over, success means that the message
// is done, by this call or by another worker.
func (c *Client) Succeed(ctx context.Context, lease Lease) (*Message, error) {
	return c.settle(ctx, lease, "succeed", leaseJSON{Token: lease.Token}, judgeSuccess)
}

// Fail records a failure: the message is ready again after a wait, or dead when its retries are used up or the report
// says Permanent; the answer tells which. It returns [ErrStaleLease] or [ErrNotProcessing] when the lease was over, and
// the failure was not recorded.
func (c *Client) Fail(ctx context.Context, lease Lease, report FailureReport) (*Message, error) {
	return c.settle(ctx, lease, "fail", report.wire(leaseJSON{Token: lease.Token}), func(now *Message) verdict {
		return judgeFailure(now, &report)
	})
}

// Extend lets a lease end the given time from now, from 1 s to 12 h: a heartbeat. It returns [ErrStaleLease] or
// [ErrNotProcessing] when the lease was over: stop working on the message.
func (c *Client) Extend(ctx context.Context, lease Lease, by time.Duration) (*Message, error) {
	body := struct {
		leaseJSON

		Seconds int64 `json:"seconds"`
	}{leaseJSON{Token: lease.Token}, seconds(by)}
	// A lease that is over is over, whatever an earlier try did.
	return c.settle(ctx, lease, "extend", body, func(*Message) verdict { return refused })
}

// Release gives a message back. It is ready again at once, in its old place, or after a delay of at most 90 days. It
// costs neither a retry nor a delivery.
func (c *Client) Release(ctx context.Context, lease Lease, delay time.Duration) (*Message, error) {
	body := struct {
		leaseJSON

		DelaySeconds int64 `json:"delay_seconds,omitempty"`
	}{leaseJSON{Token: lease.Token}, seconds(delay)}
	return c.settle(ctx, lease, "release", body, func(*Message) verdict { return unknown })
}

// settle calls one of the routes of a leased message. judge decides, by what the message is now, what a refusal means
// that came after a try whose answer was lost.
func (c *Client) settle(
	ctx context.Context, lease Lease, action string, body any, judge func(now *Message) verdict,
) (*Message, error) {
	m := new(Message)
	answer, err := c.do(ctx, request{
		method: http.MethodPost, path: messagePath(lease.Queue, lease.ID, "/"+action), body: body, safety: lease.safety(),
	}, m)
	if problem := new(Error); answer.doubtful && errors.As(err, &problem) && (try{problem: problem}).decides() {
		m, err = c.judge(ctx, lease, problem, judge)
	}
	if err != nil {
		return nil, fmt.Errorf("%s message %d of %q: %w", action, lease.ID, lease.Queue, err)
	}
	return m, nil
}
