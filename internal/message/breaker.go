package message

import "time"

// Breaker has a queue hand out nothing for a while when too many of its messages fail: a dependency of its workers is
// down, and every message handed out meanwhile would only use up its retries.
type Breaker struct {
	// Window is how far back failures count; 0 is no breaker.
	Window time.Duration
	// FailurePercent of the outcomes within Window, of which there must be MinSample, opens it.
	FailurePercent, MinSample int
	// OpenFor is how long nothing is handed out.
	OpenFor time.Duration
	// Probes is how many messages are handed out after that. One failure opens it again; when all have succeeded it
	// closes.
	Probes int
}

// BreakerState says what a circuit breaker lets through.
type BreakerState string

const (
	// BreakerClosed lets everything through.
	BreakerClosed BreakerState = "Closed"
	// BreakerOpen lets nothing through.
	BreakerOpen BreakerState = "Open"
	// BreakerHalfOpen lets a few messages through, to see how they end.
	BreakerHalfOpen BreakerState = "HalfOpen"
)

// DefaultBreaker are the rules of a breaker for what is not said, but for Window, which switches it on.
func DefaultBreaker() Breaker {
	return Breaker{FailurePercent: 50, MinSample: 20, OpenFor: 30 * time.Second, Probes: 5}
}
