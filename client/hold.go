package client

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// beatsPerLease is how many heartbeats there are in the time that a lease lasts: one may be late and another lost.
	beatsPerLease = 3
	// fallbackLease is used when an answer does not tell how long a lease lasts.
	fallbackLease = 30 * time.Second
)

// hold keeps the lease of one message alive, from its claim until its outcome is reported.
type hold struct {
	r *run
	m *Message
	// lasts is for how long each heartbeat asks.
	lasts time.Duration

	mu sync.Mutex
	// until is when the lease ends if no heartbeat gets through.
	until time.Time
	// isOver is set when there is nothing to keep any more.
	isOver bool
	// isGone is set when the API said that the lease is over, or when it must be by our clock.
	isGone bool
	beat   *time.Timer
	// cancel ends the handler's context; nil while there is none.
	cancel context.CancelCauseFunc
}

// newHold begins to keep a lease that was just claimed.
func newHold(ctx context.Context, r *run, m *Message) *hold {
	lasts := m.LeaseExpiresAt.Sub(m.UpdatedAt)
	if lasts <= 0 {
		lasts = max(r.VisibilityTimeout, fallbackLease)
	}
	h := &hold{r: r, m: m, lasts: lasts, until: r.c.now().Add(lasts)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beat = time.AfterFunc(lasts/beatsPerLease, func() { h.extend(ctx) })
	return h
}

// start hands over what ends the handler's context. It returns false when the lease is lost already.
func (h *hold) start(cancel context.CancelCauseFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	return !h.isGone
}

// isLost reports that another worker may have the message.
func (h *hold) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isGone
}

// end stops keeping the lease.
func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isOver = true
	h.beat.Stop()
}

// extend is one heartbeat. A heartbeat that fails is repeated as long as the lease can be alive.
func (h *hold) extend(ctx context.Context) {
	h.mu.Lock()
	until, isOver := h.until, h.isOver
	h.mu.Unlock()
	if isOver {
		return
	}
	began := h.r.c.now()
	ctx, cancel := context.WithTimeout(ctx, until.Sub(began))
	defer cancel()
	_, err := h.r.c.Extend(ctx, h.m.Lease(), h.lasts)

	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.until.Sub(h.r.c.now())
	switch {
	case h.isOver:
	case err == nil:
		h.until = began.Add(h.lasts)
		h.beat.Reset(h.lasts / beatsPerLease)
	case leaseIsOver(err), left <= 0:
		h.isGone, h.isOver = true, true
		if h.cancel != nil {
			h.cancel(ErrLeaseLost)
		}
	default:
		h.r.log.WarnContext(ctx, "a lease could not be extended", "message_id", h.m.ID, "left", left, "error", err)
		h.beat.Reset(min(h.lasts/beatsPerLease, left)/2 + time.Millisecond)
	}
}

// leaseIsOver recognises the answers to a call on a lease that is not current.
func leaseIsOver(err error) bool {
	return errors.Is(err, ErrStaleLease) || errors.Is(err, ErrNotProcessing) || errors.Is(err, ErrNotFound)
}
