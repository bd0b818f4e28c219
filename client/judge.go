package client

import (
	"context"
	"fmt"
)

// verdict says what a refusal means that came after a try whose answer was lost.
type verdict int

const (
	// done: the earlier try, or somebody else, has done what was asked for.
	done verdict = iota
	// refused: the earlier try had no effect either.
	refused
	// unknown: either may be true.
	unknown
)

// judge looks at the message to find out what a refusal means, and returns it if all is done.
func (c *Client) judge(
	ctx context.Context, lease Lease, problem *Error, judge func(now *Message) verdict,
) (*Message, error) {
	now, err := c.Get(ctx, lease.Queue, lease.ID)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", problem, ErrUnknownOutcome)
	}
	switch judge(now) {
	case done:
		return now, nil
	case refused:
		return nil, problem
	default:
		return nil, fmt.Errorf("%w (%w)", problem, ErrUnknownOutcome)
	}
}

// judgeSuccess: success is final, so a message in any other state never saw the earlier try.
func judgeSuccess(now *Message) verdict {
	if now.Status == Succeeded {
		return done
	}
	return refused
}

// judgeFailure: the earlier try was recorded if the last failure is the one that was reported. A lease that ran out,
// or a success, means that it was not. Anything else may have come after it.
func judgeFailure(now *Message, report *FailureReport) verdict {
	last := now.LastFailure
	switch {
	case now.Status == Succeeded:
		return unknown
	case last == nil:
		return unknown // It was replayed since, perhaps.
	case report.describes(last):
		return done
	case last.ErrorClass == "LeaseExpired", last.ErrorClass == "MaxDeliveriesExceeded":
		return refused // The names that the API gives to a lease that ran out.
	default:
		return unknown
	}
}

// describes reports that a recorded failure is the one of this report. What a report leaves out, the API works out.
func (r *FailureReport) describes(recorded *Failure) bool {
	sent := r.wire(leaseJSON{})
	return (sent.Category == "" || sent.Category == recorded.Category) && recorded.ErrorClass == sent.ErrorClass &&
		(sent.Error == "" || sent.Error == recorded.Reason)
}
