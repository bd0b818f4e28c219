package measure

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A bucket is 1/64 of a power of two wide, so that a quantile is at most 1.6 % above the truth.
const (
	subBits  = 6
	subCount = 1 << subBits
)

// Histogram counts durations from many goroutines in constant memory. The zero value is empty.
type Histogram struct {
	buckets [(64 - subBits + 1) * subCount]atomic.Int64
	count   atomic.Int64
	longest atomic.Int64
}

// Record counts one duration; a negative one is nothing.
func (h *Histogram) Record(d time.Duration) {
	nanos := max(int64(d), 0)
	h.buckets[bucketOf(uint64(nanos))].Add(1)
	h.count.Add(1)
	for {
		longest := h.longest.Load()
		if nanos <= longest || h.longest.CompareAndSwap(longest, nanos) {
			return
		}
	}
}

// Count is the number of durations recorded.
func (h *Histogram) Count() int64 { return h.count.Load() }

// Max is the longest duration recorded.
func (h *Histogram) Max() time.Duration { return time.Duration(h.longest.Load()) }

// Quantile is the duration that the fraction q of those recorded does not exceed, rounded up to its bucket's end, and 0
// when there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(int64(math.Ceil(q*float64(h.Count()))), 1)
	var seen int64
	for i := range h.buckets {
		if seen += h.buckets[i].Load(); seen >= rank {
			return min(time.Duration(upperBound(i)), h.Max())
		}
	}
	return h.Max()
}

// bucketOf is exact below 128 ns and logarithmic with 64 steps per doubling above.
func bucketOf(nanos uint64) int {
	if nanos < subCount {
		return int(nanos)
	}
	shift := bits.Len64(nanos) - 1 - subBits
	return shift*subCount + int(nanos>>shift)
}

// upperBound is the largest value of a bucket.
func upperBound(bucket int) uint64 {
	if bucket < subCount {
		return uint64(bucket)
	}
	shift := bucket/subCount - 1
	return uint64(bucket-shift*subCount+1)<<shift - 1
}
