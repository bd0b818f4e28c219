package store_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
	"deadletter.dev/deadletter/internal/store/storetest"
)

// slotsInUse is how many segments there are.
func (d database) slotsInUse(t *testing.T) int {
	t.Helper()
	return d.count(t, "SELECT count(*)::int FROM deadletter.segment")
}

func TestRotationFreesClosedSegments(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	settings := message.DefaultSettings()
	settings.Retention.Succeeded = 0
	d.declare(t, orders, settings)
	for range 40 {
		d.mustEnqueue(t, 3)
		d.rotate(t, eager)
		held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 10})
		if err != nil || len(held) != 3 {
			t.Fatalf("claimed %d, %v", len(held), err)
		}
		if _, err := d.Succeed(t.Context(), orders, refs(held)); err != nil {
			t.Fatalf("succeed: %v", err)
		}
	}
	if n := d.slotsInUse(t); n > 2 {
		t.Fatalf("%d slots are in use", n)
	}
	d.check(t)
}

// A queue that nobody works on must not keep the others from going on, nor lose its messages or their order.
func TestRotationSurvivors(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, "idle", message.DefaultSettings())
	var want []int64
	for i := range 40 {
		stored, err := d.Enqueue(t.Context(), "idle", []store.NewMessage{{Payload: fmt.Append(nil, i)}})
		if err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		want = append(want, stored[0].ID)
		d.mustEnqueue(t, 2)
		held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1})
		if err != nil || len(held) != 1 {
			t.Fatalf("claimed %d, %v", len(held), err)
		}
		d.rotate(t, eager)
		if i%2 == 0 {
			if settled, err := d.Succeed(t.Context(), orders, refs(held)); err != nil || settled[0].Err != nil {
				t.Fatalf("succeed after the segment went: %v, %v", settled, err)
			}
		}
		d.check(t)
	}
	for i, id := range want {
		claimed, err := d.Claim(t.Context(), "idle", store.ClaimParams{Max: 1})
		if err != nil || len(claimed) != 1 || claimed[0].ID != id || string(claimed[0].Payload) != strconv.Itoa(i) {
			t.Fatalf("claim %d: %+v, %v; want message %d", i, claimed, err, id)
		}
	}
}

// With more left than may be moved, segments stay. Full ones take half of the slots, old ones the others, and then the
// last one goes on.
func TestRotationWithoutRoom(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	strict := eager
	strict.Survivors = 0
	rotations := func(pass time.Duration) int {
		for range 10 {
			d.mustEnqueue(t, 1)
			d.exec(t, "UPDATE deadletter.segment SET opened_at = opened_at - $1::interval", pass)
			d.rotate(t, strict)
		}
		return d.slotsInUse(t)
	}
	if n := rotations(0); n != 5 {
		t.Fatalf("full segments use %d slots, want 5", n)
	}
	if n := rotations(5 * time.Hour); n != 8 {
		t.Fatalf("old segments use %d slots, want all 8", n)
	}
	claimed := 0
	for range 30 {
		held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 100})
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		claimed += len(held)
	}
	if claimed != 20 {
		t.Fatalf("claimed %d messages, want 20", claimed)
	}
	d.check(t)
}

// A reader that holds a segment, as a backup does, makes rotation wait for another time and nobody else at all.
func TestRotationGivesWay(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.mustEnqueue(t, 1)
	d.rotate(t, eager)
	tx, err := d.raw.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM deadletter.log_0"); err != nil {
		t.Fatalf("read: %v", err)
	}
	if result := d.rotate(t, eager); result.Freed != 0 {
		t.Fatalf("freed under a reader: %+v", result)
	}
	d.mustEnqueue(t, 1)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatalf("rollback: %v", err)
	}
	if result := d.rotate(t, eager); result.Freed != 1 {
		t.Fatalf("after the reader: %+v", result)
	}
	d.check(t)
}

// Two stores on one database: each finds what the other wrote to a segment that it has not heard of.
func TestRotationSeenByOthers(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	other := openDatabase(t, d.url, store.Options{})
	d.mustEnqueue(t, 1)
	if held, err := other.Claim(t.Context(), orders, store.ClaimParams{Max: 10}); err != nil || len(held) != 1 {
		t.Fatalf("claimed %d, %v", len(held), err)
	}
	for range 3 {
		d.rotate(t, store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour})
		d.mustEnqueue(t, 1)
		held, err := other.Claim(t.Context(), orders, store.ClaimParams{Max: 10})
		if err != nil || len(held) != 1 {
			t.Fatalf("claimed %d, %v", len(held), err)
		}
		if _, err := d.Get(t.Context(), orders, held[0].ID); err != nil {
			t.Fatalf("get: %v", err)
		}
		if settled, err := other.Succeed(t.Context(), orders, refs(held)); err != nil || settled[0].Err != nil {
			t.Fatalf("succeed: %v, %v", settled, err)
		}
		other.mustEnqueue(t, 1)
		if held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 10}); err != nil || len(held) != 1 {
			t.Fatalf("claimed %d, %v", len(held), err)
		}
	}
	d.check(t)
}

// A segment whose survivors cannot be moved, because somebody holds the lock for it, is not freed.
func TestRotationLosesNothingToBusyQueues(t *testing.T) {
	t.Parallel()
	for name, succeed := range map[string]bool{"kept": true, "pending": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.declare(t, orders, message.DefaultSettings())
			d.mustEnqueue(t, 1)
			if succeed {
				d.succeedAll(t)
			}
			d.rotate(t, store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour})
			tx, err := d.raw.Begin(t.Context())
			if err != nil {
				t.Fatalf("begin: %v", err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", d.ClaimLockKey(orders)); err != nil {
				t.Fatalf("lock: %v", err)
			}
			if result := d.rotate(t, eager); result.Freed != 0 || result.Moved != 0 {
				t.Fatalf("a pass beside the lock: %+v", result)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatalf("rollback: %v", err)
			}
			if result := d.rotate(t, eager); result.Freed != 1 || result.Moved != 1 {
				t.Fatalf("a pass after the lock: %+v", result)
			}
			if n := d.count(t, "SELECT count(*)::int FROM ("+storetest.MessagesSQL(schema)+") m"); n != 1 {
				t.Fatalf("%d messages are left", n)
			}
			d.check(t)
		})
	}
}

// What is to be kept keeps its segment, even from a pass that believes otherwise.
func TestFreeSegmentLooksItself(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, message.DefaultSettings())
	d.mustEnqueue(t, 1)
	d.rotate(t, store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour})
	refused := func(when string) {
		t.Helper()
		if freed, err := d.FreeSegment(t.Context(), 1); freed || err != nil {
			t.Fatalf("%s: freed %t, %v", when, freed, err)
		}
	}
	refused("pending")
	d.succeedAll(t)
	refused("kept")
	settings := message.DefaultSettings()
	settings.Retention.Succeeded = 0
	d.declare(t, orders, settings)
	if freed, err := d.FreeSegment(t.Context(), 1); !freed || err != nil {
		t.Fatalf("nothing is kept: freed %t, %v", freed, err)
	}
	d.check(t)
}

// succeedAll claims and acknowledges everything that is pending.
func (d database) succeedAll(t *testing.T) {
	t.Helper()
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 100})
	if err != nil || len(held) == 0 {
		t.Fatalf("claimed %d, %v", len(held), err)
	}
	if _, err := d.Succeed(t.Context(), orders, refs(held)); err != nil {
		t.Fatalf("succeed: %v", err)
	}
}
