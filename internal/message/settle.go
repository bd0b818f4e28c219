package message

import (
	"fmt"
	"time"
)

// Verdict is what a failure does to a message.
type Verdict struct {
	// Status is Pending for a retry or Dead.
	Status Status
	// RetryCount is the new count, this failure included.
	RetryCount int
	// RetryAfter is when a retry becomes ready; zero when dead.
	RetryAfter time.Time
	// Failure is the record to keep.
	Failure Failure
}

// Fail decides on a failure that a worker reported at now. It is dead when the report says permanent, when the retries
// are used up, or when the message has been delivered MaxDeliveries times; the worker's category is kept in each case.
// jitter is a random number in [0, 1).
func (s Settings) Fail(m Message, report Report, now time.Time, jitter float64) Verdict {
	verdict := Verdict{RetryCount: m.RetryCount + 1, Failure: NewFailure(report, m.holder(), now)}
	if report.Permanent || verdict.RetryCount >= m.MaxRetries || m.DeliveryCount >= s.MaxDeliveries {
		verdict.Status = Dead
		return verdict
	}
	wait := s.Backoff.Delay(verdict.RetryCount, jitter)
	if report.RetryAfter != nil {
		wait = min(max(*report.RetryAfter, 0), MaxDelay)
	}
	verdict.Status, verdict.RetryAfter = Pending, now.Add(wait)
	return verdict
}

// Expire decides on a lease that ran out: a counted failure of category Timeout, or Poison when it was the last
// delivery that the queue allows a message that never comes back.
func (s Settings) Expire(m Message, now time.Time, jitter float64) Verdict {
	report := Report{
		Reason:     "lease expired: the worker did not answer within its visibility timeout",
		Category:   string(Timeout),
		ErrorClass: "LeaseExpired",
	}
	if m.DeliveryCount >= s.MaxDeliveries {
		report.Category = string(Poison)
		report.ErrorClass = "MaxDeliveriesExceeded"
		report.Reason = fmt.Sprintf("lease expired on delivery %d of at most %d", m.DeliveryCount, s.MaxDeliveries)
	}
	return s.Fail(m, report, now, jitter)
}

func (m Message) holder() Consumer {
	if m.Lease == nil {
		return Consumer{}
	}
	return m.Lease.Consumer
}

// ExpiryReport is the failure of a message whose time to live has passed.
func ExpiryReport() Report {
	return Report{
		Reason:     "time to live has passed before the message was handled",
		Category:   string(Expired),
		ErrorClass: "MessageExpired",
	}
}

// OverflowReport is the failure of a message that its queue had no room for.
func OverflowReport() Report {
	return Report{
		Reason:     "queue was full: it had as many pending and processing messages as its maximum length allows",
		Category:   string(Overflowed),
		ErrorClass: "QueueFull",
	}
}
