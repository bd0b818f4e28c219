package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Result is what became of one item of a batch.
type Result struct {
	ID int64
	// Status is the HTTP status that the single call would have had.
	Status int
	// Message is the message after the call, without its payload and headers; nil when the call was refused.
	Message *Message
	// Err is nil, or what the single call would have returned, such as [ErrStaleLease].
	Err error
}

// resultJSON is a result as the API writes it.
type resultJSON struct {
	ID      int64    `json:"id"`
	Status  int      `json:"status"`
	Message *Message `json:"message"`
	Problem *Error   `json:"problem"`
}

// UnmarshalJSON reads a result of the API.
func (r *Result) UnmarshalJSON(text []byte) error {
	var wire resultJSON
	if err := json.Unmarshal(text, &wire); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	*r = Result{ID: wire.ID, Status: wire.Status, Message: wire.Message}
	if wire.Problem != nil {
		r.Err = wire.Problem
	}
	return nil
}

// FailedLease is one failure of a batch.
type FailedLease struct {
	Lease
	FailureReport
}

// SucceedBatch finishes up to 1,000 messages of a queue, each on its own: the results, in the order of the leases, tell
// what became of each. An error means that nothing is known of any.
func (c *Client) SucceedBatch(ctx context.Context, queue string, leases []Lease) ([]Result, error) {
	items := make([]leaseJSON, len(leases))
	for i, lease := range leases {
		items[i] = leaseJSON{ID: lease.ID, Token: lease.Token}
	}
	return c.settleBatch(ctx, queue, "succeed", leases, items, func(_ int, now *Message) verdict {
		return judgeSuccess(now)
	})
}

// FailBatch records up to 1,000 failures in a queue, each on its own; see [Client.SucceedBatch].
func (c *Client) FailBatch(ctx context.Context, queue string, failures []FailedLease) ([]Result, error) {
	leases, items := make([]Lease, len(failures)), make([]reportJSON, len(failures))
	for i := range failures {
		leases[i] = failures[i].Lease
		items[i] = failures[i].wire(leaseJSON{ID: leases[i].ID, Token: leases[i].Token})
	}
	return c.settleBatch(ctx, queue, "fail", leases, items, func(i int, now *Message) verdict {
		return judgeFailure(now, &failures[i].FailureReport)
	})
}

// settleBatch calls one of the routes for several leases. judge decides on item i as in settle.
func (c *Client) settleBatch(
	ctx context.Context, queue, action string, leases []Lease, items any, judge func(i int, now *Message) verdict,
) ([]Result, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	var got struct {
		Results []Result `json:"results"`
	}
	answer, err := c.do(ctx, request{
		method: http.MethodPost, path: queuePath(queue, "/"+action), safety: safetyOfAll(leases),
		body: map[string]any{"items": items},
	}, &got)
	if err == nil && len(got.Results) != len(leases) {
		err = fmt.Errorf("%w: %d results for %d items", ErrUnknownOutcome, len(got.Results), len(leases))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %d messages of %q: %w", action, len(leases), queue, err)
	}
	for i := range got.Results {
		result := &got.Results[i]
		if problem := new(Error); answer.doubtful && errors.As(result.Err, &problem) && (try{problem: problem}).decides() {
			c.judgeResult(ctx, leases[i], result, problem, func(now *Message) verdict { return judge(i, now) })
		}
	}
	return got.Results, nil
}

func (c *Client) judgeResult(
	ctx context.Context, lease Lease, result *Result, problem *Error, judge func(now *Message) verdict,
) {
	result.Message, result.Err = c.judge(ctx, lease, problem, judge)
	if result.Err == nil {
		result.Status = http.StatusOK
	}
}

func safetyOfAll(leases []Lease) safety {
	for _, lease := range leases {
		if lease.safety() != repeatable {
			return lease.safety()
		}
	}
	return repeatable
}
