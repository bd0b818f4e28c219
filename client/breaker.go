package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Breaker stops a worker from claiming while what its handler depends on is down, so that messages wait instead of
// using up their retries. It opens when too many of the messages handled within a window failed; after a while a few
// messages are tried, and it closes when all of them succeed, or opens again when one fails.
//
// It is this worker's alone. A Queue may have one that all its workers share: see spec.circuitBreaker.
type Breaker struct {
	// FailurePercent is the share of failures at which it opens, from 1 to 100; 50 by default.
	FailurePercent int
	// MinSample is how many messages must have been handled within the window; 20 by default.
	MinSample int
	// Window is over how long outcomes are counted; a minute by default.
	Window time.Duration
	// OpenFor is how long nothing is claimed; 30 s by default.
	OpenFor time.Duration
	// Probes is how many messages are tried after that; 3 by default.
	Probes int
	// Counts says whether an error of the handler speaks against what it depends on. Errors that do not are left out of
	// the count. By default all do but [Permanent] ones and those of category VALIDATION: they are the message's fault.
	Counts func(err error) bool
}

const (
	defaultFailurePercent = 50
	defaultMinSample      = 20
	defaultWindow         = time.Minute
	defaultOpenFor        = 30 * time.Second
	defaultProbes         = 3
	// windowParts is into how many parts the window is divided, which it moves by.
	windowParts = 10
)

// errNoVerdict is the outcome of a message that says nothing about what the handler depends on.
var errNoVerdict = errors.New("no verdict")

// gate admits messages as long as the breaker is closed. A nil gate admits all.
type gate struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	probes  int
	openFor time.Duration
	// changed has an element when a message was judged since it was last looked at.
	changed chan struct{}
}

// newGate returns nil when there is no breaker.
func newGate(ctx context.Context, b *Breaker, log *slog.Logger) (*gate, error) {
	if b == nil {
		return nil, nil //nolint:nilnil // none is a choice
	}
	percent, least := cmp.Or(b.FailurePercent, defaultFailurePercent), cmp.Or(b.MinSample, defaultMinSample)
	window, probes := cmp.Or(b.Window, defaultWindow), cmp.Or(b.Probes, defaultProbes)
	openFor := cmp.Or(b.OpenFor, defaultOpenFor)
	if percent < 1 || percent > 100 || least < 1 || probes < 1 || window < 0 || openFor < 0 {
		return nil, fmt.Errorf("worker: the settings of the breaker are out of range: %+v", *b)
	}
	counts := b.Counts
	if counts == nil {
		counts = blamesDependency
	}
	return &gate{
		probes: probes, openFor: openFor, changed: make(chan struct{}, 1),
		breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			MaxRequests: uint32(probes), //nolint:gosec // not negative
			Interval:    window, BucketPeriod: max(window/windowParts, 1), Timeout: openFor,
			ReadyToTrip: func(c gobreaker.Counts) bool {
				judged := c.TotalSuccesses + c.TotalFailures
				return int(judged) >= least && int(c.TotalFailures)*100 >= percent*int(judged)
			},
			IsSuccessful: func(err error) bool { return err == nil },
			IsExcluded:   func(err error) bool { return err != nil && (errors.Is(err, errNoVerdict) || !counts(err)) },
			OnStateChange: func(_ string, from, to gobreaker.State) {
				log.WarnContext(ctx, "the breaker of the worker changes", "from", from.String(), "to", to.String())
			},
		}),
	}, nil
}

// blamesDependency is the default of [Breaker.Counts].
func blamesDependency(err error) bool { return !isPermanent(err) && categoryOf(err) != Validation }

// admit returns how many messages to claim, up to most, with as many waiting already. While the breaker is open it
// waits; 0 means that ctx has ended.
func (g *gate) admit(ctx context.Context, most, waiting int) int {
	if g == nil || most == 0 {
		return most
	}
	timer := time.NewTimer(g.openFor)
	defer timer.Stop()
	for {
		switch g.breaker.State() {
		case gobreaker.StateClosed:
			return most
		case gobreaker.StateHalfOpen:
			counts := g.breaker.Counts()
			if left := g.probes - int(counts.Requests-counts.TotalExclusions) - waiting; left > 0 {
				return min(left, most)
			}
		case gobreaker.StateOpen:
		}
		timer.Reset(g.openFor/windowParts + time.Millisecond)
		select {
		case <-g.changed:
		case <-timer.C:
		case <-ctx.Done():
			return 0
		}
	}
}

// enter asks for one message to be handled. judge must then be called with its outcome.
func (g *gate) enter() (judge func(error), admitted bool) {
	if g == nil {
		return func(error) {}, true
	}
	done, err := g.breaker.Allow()
	if err != nil {
		return nil, false
	}
	return func(outcome error) {
		done(outcome)
		select {
		case g.changed <- struct{}{}:
		default:
		}
	}, true
}
