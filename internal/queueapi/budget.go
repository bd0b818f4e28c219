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

// maxHeldBytes is the most bytes of bodies that are held at once, unless two bodies of the largest size need more.
const maxHeldBytes = 128 << 20

func newBudget(largest int64) *budget { return &budget{limit: max(maxHeldBytes, 2*largest)} }

// spender takes from a budget what it reads, as it reads it.
type spender struct {
	budget *budget
	from   io.Reader
	spent  int64
}

// Read implements io.Reader. It fails with a problem when the budget is used up.
func (s *spender) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.spent += int64(n)
	if s.budget.used.Add(int64(n)) > s.budget.limit {
		return n, problemOverloaded()
	}
	return n, err //nolint:wrapcheck // a transparent wrapper
}

// giveBack returns what was taken.
func (s *spender) giveBack() { s.budget.used.Add(-s.spent) }
