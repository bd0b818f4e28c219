package store

import (
	"context"
	"errors"

	"deadletter.dev/deadletter/internal/coalesce"
)

const (
	// gatherMessages bounds the messages of one flush; a larger call goes alone.
	gatherMessages = 1000
	// gatherFailures bounds the failures of one flush, which come with their texts.
	gatherFailures = 200
	// gatherBytes of payload weigh as much as one message, so that a flush of several calls is at most 1 MiB: it is on its
	// way as a whole before a process that is stopped in the middle could leave locks behind.
	gatherBytes = 1 << 10
)

// gather makes the groups in which concurrent calls on a queue go together. Enqueues and claims of a queue take turns
// in any case; acknowledgements do not, so that the next flush is sent while one is under way.
func (s *Store) gather() {
	s.enqueues = coalesce.New(coalesce.Options[messageColumnsOf]{
		MaxWeight: gatherMessages, Weight: messageColumnsOf.weight, Retry: mayBeOneCalls,
	}, s.enqueueAll)
	s.claims = coalesce.New(coalesce.Options[ClaimParams]{
		MaxWeight: gatherMessages, Weight: func(p ClaimParams) int { return p.Max }, Retry: mayBeOneCalls,
	}, s.claimAll)
	s.succeeds = coalesce.New(coalesce.Options[[]LeaseRef]{
		MaxWeight: gatherMessages, Weight: func(leases []LeaseRef) int { return len(leases) }, InFlight: 2,
		Retry: mayBeOneCalls,
	}, s.succeedAll)
	// A message's failure is a few statements and one flush, which many share as well as one.
	s.fails = coalesce.New(coalesce.Options[[]FailedLease]{
		MaxWeight: gatherFailures, Weight: func(failures []FailedLease) int { return len(failures) }, InFlight: 2,
		Retry: mayBeOneCalls,
	}, s.failAll)
}

// mayBeOneCalls reports whether an error may be the fault of one call among several, rather than of the database.
func mayBeOneCalls(err error) bool {
	return !IsUnavailable(err) && !errors.Is(err, context.Canceled)
}
