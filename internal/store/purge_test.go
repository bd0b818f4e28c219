package store_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
	"deadletter.dev/deadletter/internal/store/storetest"
)

// everywhere fills a queue with messages of every status, in the log and in the table message. It returns how many of
// each there are.
func (d database) everywhere(t *testing.T) map[message.Status]int {
	t.Helper()
	d.declare(t, orders, message.DefaultSettings())
	d.bury(t, reasons("EXTERNAL: a", "EXTERNAL: b")...)
	settle := func() {
		d.mustEnqueue(t, 3)
		held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 2})
		if err != nil || len(held) != 2 {
			t.Fatalf("claimed %d, %v", len(held), err)
		}
		if _, err := d.Succeed(t.Context(), orders, refs(held)[:1]); err != nil {
			t.Fatalf("succeed: %v", err)
		}
	}
	settle()
	d.rotate(t, eager)
	d.rotate(t, eager) // What there was is in the table message now.
	settle()
	d.rotate(t, store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour})
	settle()
	return d.byStatus(t)
}

// byStatus counts the messages of the queue orders, wherever they are.
func (d database) byStatus(t *testing.T) map[message.Status]int {
	t.Helper()
	counts := map[message.Status]int{}
	for _, status := range message.Statuses() {
		counts[status] = d.count(t, `SELECT count(*)::int FROM (`+storetest.MessagesSQL(schema)+`) m
			JOIN deadletter.queue q ON q.id = m.queue_id WHERE q.name = $1 AND m.status = $2`, orders, string(status))
	}
	return counts
}

func TestPurgeTouchesItsScopeOnly(t *testing.T) {
	t.Parallel()
	for _, scope := range []message.Status{message.Pending, message.Succeeded, message.Dead} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			want := d.everywhere(t)
			old, err := d.Purge(t.Context(), orders, scope, time.Now().Add(-time.Hour))
			if err != nil || old.Removed != 0 || !old.Complete {
				t.Fatalf("purge of what is older: %+v, %v", old, err)
			}
			result, err := d.Purge(t.Context(), orders, scope, time.Time{})
			if err != nil || !result.Complete || int(result.Removed) != want[scope] || want[scope] < 2 {
				t.Fatalf("purge: %+v, %v; want %d", result, err, want[scope])
			}
			want[scope] = 0
			for status, n := range d.byStatus(t) {
				if n != want[status] {
					t.Errorf("%d messages are %s, want %d", n, status, want[status])
				}
			}
			d.check(t)
			d.mustEnqueue(t, 1)
			held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 100})
			if err != nil || len(held) != want[message.Pending]+1 {
				t.Errorf("claimed %d after the purge, %v; want %d", len(held), err, want[message.Pending]+1)
			}
			d.rotate(t, eager)
			d.rotate(t, eager)
			d.check(t)
		})
	}
}

// What comes while a purge is at work stays, even if the bound is in the future.
func TestPurgeIsAsOf(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.mustEnqueue(t, 2)
	result, err := d.Purge(t.Context(), orders, message.Pending, time.Now().Add(time.Hour))
	if err != nil || result.Removed != 2 || result.Before.After(time.Now().Add(time.Minute)) {
		t.Fatalf("purge: %+v, %v", result, err)
	}
	d.mustEnqueue(t, 3)
	if result, err = d.Purge(t.Context(), orders, message.Pending, result.Before); err != nil || result.Removed != 0 {
		t.Fatalf("purge as of before: %+v, %v", result, err)
	}
	if n := d.byStatus(t)[message.Pending]; n != 3 {
		t.Fatalf("%d messages are pending, want 3", n)
	}
	d.check(t)
}

func TestPurgeOfManySlices(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for range 3 {
		d.mustEnqueue(t, 1000)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if result, err := d.Purge(ended, orders, message.Pending, time.Time{}); err == nil && result.Complete {
		t.Fatalf("a purge that may take no time says it is complete: %+v", result)
	}
	result, err := d.Purge(t.Context(), orders, message.Pending, time.Time{})
	if err != nil || result.Removed != 3000 || !result.Complete {
		t.Fatalf("purge: %+v, %v", result, err)
	}
	d.check(t)
}

// Purges, workers and rotation at once: every message is delivered or purged, never both, and the counters agree.
func TestPurgeBesideWorkers(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	const messages = 600
	var purged, succeeded int64
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error {
		for i := range messages / 10 {
			batch := make([]store.NewMessage, 10)
			for k := range batch {
				batch[k].Payload = strconv.AppendInt(nil, int64(i*10+k), 10)
			}
			if _, err := d.Enqueue(ctx, orders, batch); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		for range 60 {
			held, err := d.Claim(ctx, orders, store.ClaimParams{Max: 7})
			if err != nil {
				return err
			}
			settled, err := d.Succeed(ctx, orders, refs(held))
			if err != nil {
				return err
			}
			for _, s := range settled {
				if s.Err != nil {
					return s.Err
				}
				succeeded++
			}
		}
		return nil
	})
	group.Go(func() error {
		for range 20 {
			result, err := d.Purge(ctx, orders, message.Pending, time.Time{})
			if err != nil {
				return err
			}
			purged += result.Removed
		}
		return nil
	})
	group.Go(func() error {
		for range 20 {
			if _, err := d.RotateLog(ctx, eager); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatalf("at once: %v", err)
	}
	left := d.byStatus(t)
	if int64(left[message.Pending])+purged+succeeded != messages || int64(left[message.Succeeded]) != succeeded {
		t.Fatalf("%d purged, %d succeeded, left are %v of %d", purged, succeeded, left, messages)
	}
	d.check(t)
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, reasons("EXTERNAL: a", "EXTERNAL: b")...)
	gone, err := d.Discard(t.Context(), orders, ids[0])
	if err != nil || gone.ID != ids[0] || gone.Status != message.Dead || gone.LastFailure == nil {
		t.Fatalf("discarded %+v, %v", gone, err)
	}
	if _, err := d.Discard(t.Context(), orders, ids[0]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	d.mustEnqueue(t, 1)
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1})
	if err != nil || len(held) != 1 {
		t.Fatalf("claimed %d, %v", len(held), err)
	}
	if _, err := d.Discard(t.Context(), orders, held[0].ID); !errors.Is(err, store.ErrNotDead) {
		t.Errorf("of a message that is being processed: %v", err)
	}
	d.check(t)
}

// What a running replay has selected is neither discarded nor purged.
func TestRunningReplaysKeepTheirLetters(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, reasons("EXTERNAL: a", "EXTERNAL: b")...)
	run := d.startRun(t, runSpec("1"))
	if _, err := d.Discard(t.Context(), orders, ids[0]); !errors.Is(err, store.ErrInReplay) {
		t.Errorf("discard: %v", err)
	}
	if result, err := d.Purge(t.Context(), orders, message.Dead, time.Time{}); err != nil || result.Removed != 0 {
		t.Errorf("purge: %+v, %v", result, err)
	}
	if run = d.step(t, run.ID, 10); run.Replayed != 2 {
		t.Errorf("the run replayed %d", run.Replayed)
	}
	d.check(t)
}

// TestPurgeWaitsForWhatIsInHand: one message in somebody's hand ends no purge that says it is complete.
func TestPurgeWaitsForWhatIsInHand(t *testing.T) {
	t.Parallel()
	const n = 2500
	d := newDatabase(t)
	for range n / 500 {
		batch := make([]store.NewMessage, 500)
		for i := range batch {
			batch[i] = store.NewMessage{Payload: []byte("x"), Priority: 1}
		}
		if _, err := d.Enqueue(t.Context(), orders, batch); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := d.raw.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM deadletter.message ORDER BY id LIMIT 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var result store.PurgeResult
	purged := call(func() (err error) {
		result, err = d.Purge(t.Context(), orders, message.Pending, time.Time{})
		return err
	})
	d.await(t, "SELECT count(*) = 1 FROM deadletter.message")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDone(t, purged)
	if !result.Complete || result.Removed != n {
		t.Errorf("the purge says %+v", result)
	}
}
