package message

import "time"

// Backoff is capped exponential backoff: min(Initial · (FactorPercent/100)^(n-1), Max), then spread by jitter.
type Backoff struct {
	// Initial is the wait after the first failure.
	Initial time.Duration
	// FactorPercent multiplies the wait after each further failure; 200 doubles it.
	FactorPercent int
	// Max caps the wait.
	Max time.Duration
	// JitterPercent spreads the wait evenly over ±JitterPercent of itself; the result never exceeds Max. 0 is exact.
	JitterPercent int
}

// Delay is the wait after the n-th failure, n from 1. jitter is a random number in [0, 1), used only when JitterPercent
// is set. The loop stops at the cap, so no n overflows.
func (b Backoff) Delay(n int, jitter float64) time.Duration {
	delay := min(float64(b.Initial), float64(b.Max))
	factor := float64(b.FactorPercent) / 100
	for range n - 1 {
		if factor <= 1 || delay >= float64(b.Max) {
			break
		}
		delay = min(delay*factor, float64(b.Max))
	}
	if b.JitterPercent > 0 {
		spread := delay * float64(b.JitterPercent) / 100
		delay = min(delay-spread+2*spread*jitter, float64(b.Max))
	}
	return max(time.Duration(delay), 0)
}
