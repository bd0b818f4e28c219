package measure

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestHistogramAgreesWithSorting(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var histogram Histogram
	durations := make([]time.Duration, 20_000)
	for i := range durations {
		// From nanoseconds to minutes, as many of each size.
		durations[i] = time.Duration(random.Int64N(1 << (1 + random.IntN(37))))
		histogram.Record(durations[i])
	}
	slices.Sort(durations)
	for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		want := durations[max(int(q*float64(len(durations)))-1, 0)]
		got := histogram.Quantile(q)
		if got < want || float64(got) > float64(want)*1.016+1 {
			t.Errorf("quantile %v: got %v, want %v to 1.6 %% more", q, got, want)
		}
	}
	if histogram.Max() != durations[len(durations)-1] {
		t.Errorf("max: got %v, want %v", histogram.Max(), durations[len(durations)-1])
	}
}

func TestHistogramOfFew(t *testing.T) {
	t.Parallel()
	var histogram Histogram
	if got := histogram.Quantile(0.5); got != 0 {
		t.Errorf("empty: got %v, want 0", got)
	}
	histogram.Record(-time.Second)
	histogram.Record(3 * time.Millisecond)
	if got := histogram.Quantile(0.5); got != 0 {
		t.Errorf("a negative duration is nothing: got %v", got)
	}
	// A quantile is never above what was recorded.
	if got := histogram.Quantile(0.99); got != 3*time.Millisecond {
		t.Errorf("got %v, want 3ms", got)
	}
}

func TestHistogramCountsFromManyGoroutines(t *testing.T) {
	t.Parallel()
	var histogram Histogram
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 1000 {
				histogram.Record(time.Duration(i))
			}
		})
	}
	group.Wait()
	if histogram.Count() != 8000 || histogram.Max() != 999 {
		t.Errorf("got %d up to %v, want 8000 up to 999ns", histogram.Count(), histogram.Max())
	}
}

func TestBucketsAreInOrderAndHoldTheirBounds(t *testing.T) {
	t.Parallel()
	for bucket := range len((&Histogram{}).buckets) {
		upper := upperBound(bucket)
		if got := bucketOf(upper); got != bucket {
			t.Fatalf("bucket %d ends at %d, which is in bucket %d", bucket, upper, got)
		}
		if upper+1 != 0 && bucketOf(upper+1) != bucket+1 {
			t.Fatalf("%d is in bucket %d, want %d", upper+1, bucketOf(upper+1), bucket+1)
		}
	}
}
