package store_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

const (
	// chaosVariable is how long each part of TestChaos goes on, chaosSeedVariable the seed of its choices.
	chaosVariable     = "DEADLETTER_CHAOS"
	chaosSeedVariable = "DEADLETTER_CHAOS_SEED"
	chaosSpan         = 6 * time.Second
	// chaosBacklog is how many unfinished messages keep producers from making more, so that segments come to their end.
	chaosBacklog = 500
	// chaosSession is the application name of the sessions that may be ended.
	chaosSession = "chaos"
	// keptQueue keeps what has succeeded. Of briefQueue, it goes with its segment.
	keptQueue, briefQueue = "kept", "brief"
)

var chaosQueues = []string{keptQueue, briefQueue}

// Everything that befalls messages, at once and on three stores, with segments that change all the time. What callers
// are told along the way must agree with itself, and with what is stored at the end.
func TestChaos(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]bool{"sessions last": false, "sessions end": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, cut)
			defer c.ledger.report(t)
			c.rage(t)
			c.account(t, "when everybody stopped")
			c.drain(t)
			c.account(t, "when all was worked off")
			for range 3 {
				c.rotate(t, eager)
			}
			c.account(t, "when all segments had ended")
			c.checkNoOrphans(t)
			c.check(t)
		})
	}
}

// chaos is a database on which everybody works at once.
type chaos struct {
	database

	ledger *ledger
	stores []*store.Store
	seed   uint64
	// cut says that sessions are ended while they work.
	cut bool
}

func newChaos(t *testing.T, cut bool) *chaos {
	t.Helper()
	c := &chaos{database: newDatabase(t), seed: chaosSeed(t), cut: cut}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d makes the same choices", chaosSeedVariable, c.seed)
		}
	})
	settings := message.DefaultSettings()
	settings.Backoff = message.Backoff{Initial: 20 * time.Millisecond, FactorPercent: 200, Max: 100 * time.Millisecond}
	settings.MaxDeliveries = 1000
	c.declare(t, keptQueue, settings)
	settings.Retention.Succeeded = 0
	c.declare(t, briefQueue, settings)
	for range 3 {
		options := store.Options{MaxConns: 5, ApplicationName: chaosSession}
		c.stores = append(c.stores, openDatabase(t, c.url, options).Store)
	}
	c.ledger = newLedger(c.clockDistance(t), cut)
	return c
}

// clockDistance is how far the database's clock is from ours at most, with a margin for what it moves meanwhile.
func (d database) clockDistance(t *testing.T) time.Duration {
	t.Helper()
	before := time.Now()
	there := scalar[time.Time](t, t.Context(), d.raw, "SELECT clock_timestamp()")
	return max(there.Sub(before).Abs(), time.Until(there).Abs()) + 50*time.Millisecond
}

func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(chaosSeedVariable)
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", chaosSeedVariable, err)
	}
	return seed
}

// step is one deed of somebody who does the same over and over, by choices of their own.
type step func(ctx context.Context, r *rand.Rand)

// rage has everybody at work for the time that the test is given. Nobody is interrupted: each ends with a deed done.
func (c *chaos) rage(t *testing.T) {
	t.Helper()
	span := chaosSpan
	if text := os.Getenv(chaosVariable); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", chaosVariable, err)
		}
	}
	over, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var everybody sync.WaitGroup
	actors := uint64(0)
	start := func(n int, pace time.Duration, do step) {
		for range n {
			actors++
			r := rand.New(rand.NewPCG(c.seed, actors))
			everybody.Go(func() { repeat(t.Context(), over, pace, r, do) })
		}
	}
	start(3, 5*time.Millisecond, c.produce)
	start(5, 5*time.Millisecond, c.work)
	for _, s := range c.stores {
		start(1, time.Millisecond, c.turn(s))
		start(1, 100*time.Millisecond, c.upkeep(s))
	}
	start(1, 200*time.Millisecond, c.replayDead)
	start(1, 300*time.Millisecond, c.walkOne)
	start(2, 100*time.Millisecond, c.comeAndGo)
	if c.cut {
		start(1, 100*time.Millisecond, c.endSession)
	}
	everybody.Wait()
	t.Log(c.ledger.summary())
}

// repeat does a step at every tick until it is over.
func repeat(ctx, over context.Context, pace time.Duration, r *rand.Rand, do step) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-over.Done():
			return
		case <-ticker.C:
			do(ctx, r)
		}
	}
}

// any picks one of the stores.
func (c *chaos) any(r *rand.Rand) *store.Store { return c.stores[r.IntN(len(c.stores))] }

func pick(r *rand.Rand, names []string) string { return names[r.IntN(len(names))] }
