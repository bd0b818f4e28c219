package queueapi

import (
	"context"
	"time"
)

// slots is a counting semaphore.
type slots chan struct{}

// tryTake takes a slot if one is free.
func (s slots) tryTake() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// take waits for a slot and reports whether it got one before ctx ended.
func (s slots) take(ctx context.Context) bool {
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// takeWithin waits for a slot for a while.
func (s slots) takeWithin(ctx context.Context, wait time.Duration) bool {
	if s.tryTake() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.take(ctx)
}

// give returns a slot.
func (s slots) give() { <-s }
