package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"deadletter.dev/deadletter/internal/coalesce"
)

const (
	stressKeys    = 3
	stressCallers = 32
	stressCalls   = 200
	stressWeight  = 20
)

// order is a call of the stress test: the seq-th of its caller.
type order struct {
	caller, seq, weight int
	bad                 bool
}

// stress is a Group under everything at once, and what has happened in it.
type stress struct {
	group    *coalesce.Group[int, order, order]
	inFlight int
	running  [stressKeys]atomic.Int32

	mu   sync.Mutex
	runs map[[2]int]int
}

// Whatever happens at once, each call is answered once, with its own answer, and runs once where that is promised.
func TestStress(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("in flight %d", inFlight), func(t *testing.T) {
			t.Parallel()
			s := &stress{inFlight: inFlight, runs: make(map[[2]int]int)}
			s.group = coalesce.New(coalesce.Options[order]{
				MaxWeight: stressWeight,
				Weight:    func(o order) int { return o.weight },
				InFlight:  inFlight,
				Retry:     func(error) bool { return true },
			}, func(_ context.Context, key int, calls []order) ([]order, error) { return s.flush(t, key, calls) })
			var callers sync.WaitGroup
			for caller := range stressCallers {
				callers.Go(func() { s.call(t, caller) })
			}
			callers.Wait()
			if keys := s.group.Keys(); keys != 0 {
				t.Errorf("%d keys remembered with nothing to do", keys)
			}
		})
	}
}

func (s *stress) flush(t *testing.T, key int, calls []order) ([]order, error) {
	t.Helper()
	if n := int(s.running[key].Add(1)); n > s.inFlight {
		t.Errorf("%d flushes of a key at once", n)
	}
	defer s.running[key].Add(-1)
	runtime.Gosched()
	weight, bad := 0, false
	for _, call := range calls {
		weight += call.weight
		bad = bad || call.bad
	}
	if weight > stressWeight && len(calls) > 1 {
		t.Errorf("a flush of weight %d", weight)
	}
	switch {
	case bad && weight%2 == 0:
		panic("bad")
	case bad:
		return nil, errAny
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range calls {
		s.runs[[2]int{call.caller, call.seq}]++
	}
	return append([]order(nil), calls...), nil
}

func (s *stress) call(t *testing.T, caller int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(caller)))
	for seq := range stressCalls {
		in := order{caller: caller, seq: seq, weight: random.IntN(stressWeight + 5), bad: random.IntN(50) == 0}
		ctx, cancel := context.WithCancel(t.Context())
		switch random.IntN(4) {
		case 0:
			go func() {
				runtime.Gosched()
				cancel()
			}()
		case 1:
			cancel()
		}
		out, err := s.group.Do(ctx, random.IntN(stressKeys), in)
		cancel()
		s.mu.Lock()
		runs := s.runs[[2]int{caller, seq}]
		s.mu.Unlock()
		switch {
		case err == nil && (out != in || runs != 1 || in.bad):
			t.Errorf("%+v returned %+v after %d runs", in, out, runs)
		case errors.Is(err, context.Canceled) && runs > 1:
			t.Errorf("%+v ran %d times", in, runs)
		case err != nil && !errors.Is(err, context.Canceled) && !in.bad:
			t.Errorf("%+v failed for another's sake: %v", in, err)
		}
	}
}
