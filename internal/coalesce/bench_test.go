package coalesce_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/coalesce"
)

// BenchmarkAlone is what a Group costs a caller that has no company.
func BenchmarkAlone(b *testing.B) {
	answers := []int{1}
	group := coalesce.New(coalesce.Options[int]{}, func(context.Context, string, []int) ([]int, error) {
		return answers, nil
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := group.Do(b.Context(), "orders", 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKeys is the same from many goroutines at once, each with a key of its own: what they share is the mutex.
func BenchmarkKeys(b *testing.B) {
	answers := []int{1}
	group := coalesce.New(coalesce.Options[int]{}, func(context.Context, string, []int) ([]int, error) {
		return answers, nil
	})
	var next atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		key := strconv.FormatInt(next.Add(1), 10)
		for pb.Next() {
			if _, err := group.Do(b.Context(), key, 1); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkCommit has callers that come back at once, and a flush that takes a millisecond however many calls it has.
func BenchmarkCommit(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		for _, inFlight := range []int{1, 2} {
			b.Run("callers="+strconv.Itoa(callers)+"/inflight="+strconv.Itoa(inFlight), func(b *testing.B) {
				benchmarkCommit(b, callers, inFlight)
			})
		}
	}
}

func benchmarkCommit(b *testing.B, callers, inFlight int) {
	b.Helper()
	var flushes atomic.Int64
	options := coalesce.Options[int]{InFlight: inFlight}
	group := coalesce.New(options, func(_ context.Context, _ string, calls []int) ([]int, error) {
		flushes.Add(1)
		<-time.After(time.Millisecond)
		return append([]int(nil), calls...), nil
	})
	var left atomic.Int64
	left.Store(int64(b.N))
	var callersDone sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		callersDone.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := group.Do(b.Context(), "orders", 1); err != nil {
					b.Error(err)
				}
			}
		})
	}
	callersDone.Wait()
	b.ReportMetric(float64(b.N)/float64(flushes.Load()), "calls/flush")
}
