package queueapi

import (
	"io"
	"sync/atomic"
)

// budget bounds the bytes of request bodies that are held at once, whatever the number of requests: many large batches
// at a time must not take more memory than the process has.
type budget struct {
	limit int64
	used  atomic.Int64
}

const (
	// maxHeldBytes is the most bytes of bodies that are held at once, unless two bodies of the largest size need more.
	maxHeldBytes = 128 << 20
	// freeBytes of each body are not counted. They are no more than what a connection takes anyway, and they let small
	// requests through while large ones use up the budget.
	freeBytes = 4 << 10
)

func newBudget(largest int64) *budget { return &budget{limit: max(maxHeldBytes, 2*largest)} }

// spender takes from a budget what it reads, as it reads it.
type spender struct {
	budget *budget
	from   io.Reader
	// free is how much more may be read before it counts; spent is what was taken.
	free, spent int64
}

// Read implements io.Reader. It fails with a problem when it needs more of the budget than there is.
func (s *spender) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	counted := max(int64(n)-s.free, 0)
	s.free -= int64(n) - counted
	s.spent += counted
	if used := s.budget.used.Add(counted); counted > 0 && used > s.budget.limit {
		return n, problemOverloaded()
	}
	return n, err //nolint:wrapcheck // a transparent wrapper
}

// giveBack returns what was taken.
func (s *spender) giveBack() { s.budget.used.Add(-s.spent) }
