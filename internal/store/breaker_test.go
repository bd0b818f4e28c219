package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// fused are settings with a circuit breaker.
func fused() message.Settings {
	settings := message.DefaultSettings()
	settings.MaxRetries = 10
	settings.Backoff = message.Backoff{Initial: time.Millisecond, FactorPercent: 100, Max: time.Millisecond}
	settings.Breaker = message.Breaker{
		Window: time.Minute, FailurePercent: 50, MinSample: 4, OpenFor: 10 * time.Second, Probes: 2,
	}
	return settings
}

// judge has the breakers judged and returns the state of the one of orders.
func (d database) judge(t *testing.T) message.BreakerState {
	t.Helper()
	if _, err := d.JudgeBreakers(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := d.Queue(t.Context(), orders)
	if err != nil {
		t.Fatal(err)
	}
	return info.Breaker.State
}

func (d database) wantBreaker(t *testing.T, want message.BreakerState) {
	t.Helper()
	if got := d.judge(t); got != want {
		t.Fatalf("the breaker is %s, want %s", got, want)
	}
}

// settle claims n messages and has the first of them fail.
func (d database) settle(t *testing.T, n, failures int) {
	t.Helper()
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: n})
	if err != nil || len(held) != n {
		t.Fatalf("claimed %d of %d, %v", len(held), n, err)
	}
	failed := make([]store.FailedLease, failures)
	for i := range failed {
		failed[i].LeaseRef = refs(held)[i]
	}
	if _, err := d.Fail(t.Context(), orders, failed); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Succeed(t.Context(), orders, refs(held)[failures:]); err != nil {
		t.Fatal(err)
	}
}

func (d database) wantClaims(t *testing.T, want int) {
	t.Helper()
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 10})
	if err != nil || len(held) != want {
		t.Fatalf("claimed %d, %v, want %d", len(held), err, want)
	}
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, fused())
	d.mustEnqueue(t, 30)
	d.wantBreaker(t, message.BreakerClosed)
	d.settle(t, 3, 3)
	d.wantBreaker(t, message.BreakerClosed) // Three are too few.
	d.settle(t, 1, 0)
	d.wantBreaker(t, message.BreakerOpen)
	d.wantClaims(t, 0)
	if ready, err := d.ReadyQueues(t.Context(), []string{orders}); err != nil || len(ready) != 0 {
		t.Errorf("ready are %v, %v", ready, err)
	}
	if wait, err := d.RetryAfter(t.Context(), orders); err != nil || wait <= 9*time.Second || wait > 10*time.Second {
		t.Errorf("retry after %s, %v", wait, err)
	}
	d.wantBreaker(t, message.BreakerOpen)
	d.elapse(t, 10*time.Second)
	d.wantBreaker(t, message.BreakerHalfOpen)
	d.settle(t, 1, 1)
	d.wantBreaker(t, message.BreakerOpen)
	d.elapse(t, 10*time.Second)
	d.wantBreaker(t, message.BreakerHalfOpen)
	d.settle(t, 2, 0)
	d.wantClaims(t, 0)
	d.wantBreaker(t, message.BreakerClosed)
	if wait, err := d.RetryAfter(t.Context(), orders); err != nil || wait != 0 {
		t.Errorf("retry after %s, %v", wait, err)
	}
	d.wantClaims(t, 10)
	d.check(t)
}

func TestBreakerForgetsWhatIsLongAgo(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, fused())
	d.mustEnqueue(t, 10)
	d.judge(t)
	d.settle(t, 3, 3)
	d.judge(t)
	d.elapse(t, 2*time.Minute)
	d.settle(t, 1, 1)
	d.wantBreaker(t, message.BreakerClosed)
	if n := d.count(t, "SELECT count(*)::int FROM deadletter.breaker_sample"); n != 1 {
		t.Errorf("%d samples are kept", n)
	}
}

// TestBreakerIsOneForAllReplicas: outcomes at one count at the others, and probes are shared.
func TestBreakerIsOneForAllReplicas(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, fused())
	d.mustEnqueue(t, 30)
	other := openDatabase(t, d.url, store.Options{})
	d.judge(t)
	other.judge(t)
	d.settle(t, 2, 2)
	other.settle(t, 2, 2)
	d.wantBreaker(t, message.BreakerClosed) // The other has not said yet what it has seen.
	other.wantBreaker(t, message.BreakerOpen)
	d.wantClaims(t, 0)
	d.elapse(t, time.Minute)
	d.wantBreaker(t, message.BreakerHalfOpen)
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		got   int
	)
	for i := range 8 {
		group.Go(func() {
			held, err := []database{d, other}[i%2].Claim(t.Context(), orders, store.ClaimParams{Max: 2})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got += len(held)
		})
	}
	group.Wait()
	if got != 2 {
		t.Errorf("%d probes were handed out, want 2", got)
	}
	// Their worker is gone. Leases that end are failures.
	d.elapse(t, time.Minute)
	if _, err := d.ExpireLeases(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	d.wantBreaker(t, message.BreakerOpen)
}

func TestBreakerHandsOutOtherProbesWhenOnesAreLost(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, fused())
	d.mustEnqueue(t, 10)
	d.judge(t)
	d.settle(t, 4, 4)
	d.judge(t)
	d.elapse(t, 10*time.Second)
	d.wantBreaker(t, message.BreakerHalfOpen)
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 2, VisibilityTimeout: time.Hour})
	if err != nil || len(held) != 2 {
		t.Fatalf("claimed %d, %v", len(held), err)
	}
	d.wantBreaker(t, message.BreakerHalfOpen)
	d.wantClaims(t, 0)
	d.elapse(t, 31*time.Second) // Longer than the visibility timeout.
	d.wantBreaker(t, message.BreakerHalfOpen)
	d.wantClaims(t, 2)
}

func TestBreakerThatIsTakenAwayIsClosed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, fused())
	d.mustEnqueue(t, 10)
	d.judge(t)
	d.settle(t, 4, 4)
	changes, err := d.JudgeBreakers(t.Context())
	want := []store.BreakerChange{{Queue: orders, State: message.BreakerOpen}}
	if diff := cmp.Diff(want, changes); diff != "" || err != nil {
		t.Fatalf("%v: %s", err, diff)
	}
	d.declare(t, orders, message.DefaultSettings())
	d.wantBreaker(t, message.BreakerClosed)
	d.wantClaims(t, 10)
}

// TestBreakerClosesAfterSlowProbes: they need not all end within the window.
func TestBreakerClosesAfterSlowProbes(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	settings := fused()
	settings.Breaker.Window, settings.Breaker.Probes = 10*time.Second, 5
	d.declare(t, orders, settings)
	d.mustEnqueue(t, 20)
	d.judge(t)
	d.settle(t, 4, 4)
	d.wantBreaker(t, message.BreakerOpen)
	d.elapse(t, 10*time.Second)
	d.wantBreaker(t, message.BreakerHalfOpen)
	for range 4 {
		d.settle(t, 1, 0)
		d.wantBreaker(t, message.BreakerHalfOpen)
		d.elapse(t, 6*time.Second)
	}
	d.settle(t, 1, 0)
	d.wantBreaker(t, message.BreakerClosed)
}
