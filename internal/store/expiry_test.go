package store_test

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// livesFor are settings with a time to live.
func livesFor(ttl time.Duration) message.Settings {
	settings := message.DefaultSettings()
	settings.MessageTTL = ttl
	return settings
}

// sweepExpired folds the counters and kills what has expired.
func (d database) sweepExpired(t *testing.T) int {
	t.Helper()
	if err := d.FoldDepth(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := d.ExpireMessages(t.Context(), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (d database) depth(t *testing.T) store.Depth {
	t.Helper()
	info, err := d.Queue(t.Context(), orders)
	if err != nil {
		t.Fatal(err)
	}
	return info.Depth
}

// TestExpiredAreSweptFromTheLog: more than one slice, in two segments, with nobody to claim anything.
func TestExpiredAreSweptFromTheLog(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, livesFor(time.Minute))
	d.mustEnqueue(t, 1000)
	d.rotate(t, store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour, Patience: time.Hour})
	d.mustEnqueue(t, 300)
	if n := d.sweepExpired(t); n != 0 {
		t.Fatalf("%d expired before their time", n)
	}
	d.elapse(t, time.Hour)
	d.mustEnqueue(t, 5)
	if n := d.sweepExpired(t); n != 1300 {
		t.Errorf("%d expired, want 1300", n)
	}
	if depth := d.depth(t); depth.Pending != 5 || depth.Dead != 1300 {
		t.Errorf("depth is %+v", depth)
	}
	d.check(t)
	d.rotate(t, eager)
	d.rotate(t, eager)
	d.check(t)
}

// TestExpiryOfAFormerTimeToLive: messages keep the time to live that they came with, whatever the queue has now.
func TestExpiryOfAFormerTimeToLive(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, livesFor(time.Minute))
	d.mustEnqueue(t, 1)
	d.declare(t, orders, livesFor(0))
	d.mustEnqueue(t, 1)
	d.elapse(t, time.Hour)
	if n := d.sweepExpired(t); n != 1 {
		t.Errorf("%d expired, want the one that came with a time to live", n)
	}
	d.declare(t, orders, livesFor(time.Hour))
	d.mustEnqueue(t, 1)
	d.declare(t, orders, livesFor(time.Second))
	d.mustEnqueue(t, 1)
	d.elapse(t, time.Minute)
	// The last one waits behind one that lives; no claim hands it out, but one removes it.
	claimed, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 10})
	if err != nil || len(claimed) != 2 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	d.sweepExpired(t)
	if depth := d.depth(t); depth.Dead != 2 || depth.Pending != 0 {
		t.Errorf("depth is %+v", depth)
	}
}

// TestExpiryOfPausedQueues: time goes on in a paused queue.
func TestExpiryOfPausedQueues(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	settings := livesFor(time.Minute)
	settings.State = message.Paused
	d.declare(t, orders, settings)
	d.mustEnqueue(t, 2)
	d.elapse(t, time.Hour)
	if n := d.sweepExpired(t); n != 2 {
		t.Errorf("%d expired", n)
	}
}

// TestExpiryTakesTurns: while one process looks for expired messages the others do nothing.
func TestExpiryTakesTurns(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	if _, err := d.Enqueue(t.Context(), orders, []store.NewMessage{{Payload: []byte("x"), TTL: time.Second}}); err != nil {
		t.Fatal(err)
	}
	d.elapse(t, time.Minute)
	tx, err := d.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", d.ExpiryLockKey()); err != nil {
		t.Fatal(err)
	}
	if n := d.sweepExpired(t); n != 0 {
		t.Errorf("%d expired while another process is at it", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := d.sweepExpired(t); n != 1 {
		t.Errorf("%d expired", n)
	}
}

// TestExpiredInAnOlderSegmentHideNothing: a claim that takes something else while the next message of an older segment
// has expired does not go past what lives behind that.
func TestExpiredInAnOlderSegmentHideNothing(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, livesFor(time.Hour))
	d.mustEnqueue(t, 1)
	d.elapse(t, 30*time.Minute)
	d.mustEnqueue(t, 1)
	d.rotate(t, store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour, Survivors: 1_000_000, Patience: time.Hour})
	if _, err := d.Enqueue(t.Context(), orders, []store.NewMessage{{Payload: []byte("urgent"), Priority: 1}}); err != nil {
		t.Fatal(err)
	}
	d.elapse(t, 31*time.Minute)
	total := 0
	for range 3 {
		held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		total += len(held)
	}
	if total != 2 {
		t.Errorf("claimed %d, want the urgent one and the one that lives", total)
	}
}
