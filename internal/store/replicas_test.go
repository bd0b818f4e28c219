package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// late is a rotation that opens segments and moves nothing.
var late = store.Rotation{SegmentIDs: 1, SegmentAge: time.Hour}

func (d database) mustClaim(t *testing.T, limit int) []message.Message {
	t.Helper()
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: limit})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return held
}

// A replica that has not heard of the newest segment must not refuse a lease in it.
func TestLeaseOfASegmentNotHeardOf(t *testing.T) {
	t.Parallel()
	settles := map[string]func(context.Context, *store.Store, store.LeaseRef) error{
		"succeed": func(ctx context.Context, s *store.Store, ref store.LeaseRef) error {
			settled, err := s.Succeed(ctx, orders, []store.LeaseRef{ref})
			return errors.Join(err, settled[0].Err)
		},
		"fail": func(ctx context.Context, s *store.Store, ref store.LeaseRef) error {
			settled, err := s.Fail(ctx, orders, []store.FailedLease{{LeaseRef: ref}})
			return errors.Join(err, settled[0].Err)
		},
		"extend": func(ctx context.Context, s *store.Store, ref store.LeaseRef) error {
			_, err := s.Extend(ctx, orders, ref, time.Minute)
			return err
		},
		"release": func(ctx context.Context, s *store.Store, ref store.LeaseRef) error {
			_, err := s.Release(ctx, orders, ref, 0)
			return err
		},
	}
	for name, settle := range settles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			other := openDatabase(t, d.url, store.Options{})
			d.mustEnqueue(t, 1)
			other.mustClaim(t, 1)
			d.rotate(t, late)
			d.mustEnqueue(t, 1)
			if err := settle(t.Context(), other.Store, refs(d.mustClaim(t, 1))[0]); err != nil {
				t.Fatal(err)
			}
			d.check(t)
		})
	}
}

// A replica whose list of segments is so old that a slot has been used anew still keeps the order.
func TestOrderThroughASlotUsedAnew(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	settings := message.DefaultSettings()
	settings.Retention.Succeeded = 0
	d.declare(t, orders, settings)
	other := openDatabase(t, d.url, store.Options{})
	d.mustEnqueue(t, 1)
	if _, err := d.Succeed(t.Context(), orders, refs(other.mustClaim(t, 1))); err != nil {
		t.Fatalf("succeed: %v", err)
	}
	d.rotate(t, late)
	d.mustEnqueue(t, 1)
	if result := d.rotate(t, late); result.Freed != 1 || !result.Opened {
		t.Fatalf("the slot is not used anew: %+v", result)
	}
	d.mustEnqueue(t, 1)
	first, second := other.mustClaim(t, 1), other.mustClaim(t, 1)
	if len(first) != 1 || len(second) != 1 || first[0].ID > second[0].ID {
		t.Fatalf("claimed %+v, then %+v", first, second)
	}
}

// A clock that goes back, by a failover or a step, must not have a claim pass over messages.
func TestClaimsWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.mustEnqueue(t, 1)
	if _, err := d.Release(t.Context(), orders, refs(d.mustClaim(t, 1))[0], 0); err != nil {
		t.Fatalf("release: %v", err)
	}
	d.mustEnqueue(t, 4)
	d.exec(t, `UPDATE deadletter.log_0 SET created_at = created_at - interval '2 seconds'
		WHERE id >= (SELECT max(id) - 1 FROM deadletter.log_0)`)
	var got []int64
	for range 4 {
		held := d.mustClaim(t, 3)
		settled, err := d.Succeed(t.Context(), orders, refs(held))
		if err != nil {
			t.Fatalf("succeed: %v", err)
		}
		for i, m := range held {
			if got = append(got, m.ID); settled[i].Err != nil {
				t.Fatalf("succeed message %d: %v", m.ID, settled[i].Err)
			}
		}
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5}, got); diff != "" {
		t.Fatal(diff)
	}
	d.check(t)
}

// The end of a queue and the end of a segment at one time leave nothing behind.
func TestDeleteQueueWhileItsMessagesMove(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	other := openDatabase(t, d.url, store.Options{})
	d.mustEnqueue(t, 5)
	d.mustClaim(t, 2)
	d.rotate(t, late)
	if err := d.FoldDepth(t.Context()); err != nil {
		t.Fatalf("fold depth: %v", err)
	}
	// The deletion is held up between its last look and its end.
	tx, err := d.raw.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM deadletter.depth FOR UPDATE"); err != nil {
		t.Fatalf("lock: %v", err)
	}
	deleted := make(chan error, 1)
	go func() { deleted <- d.DeleteQueue(context.WithoutCancel(t.Context()), orders, store.Owner{}, false) }()
	d.await(t, `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND datname = current_database())`)
	rotated := make(chan error, 1)
	go func() {
		_, err := other.RotateLog(context.WithoutCancel(t.Context()), eager)
		rotated <- err
	}()
	if err := <-rotated; err != nil {
		t.Errorf("rotate: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatalf("rollback: %v", err)
	}
	if err := <-deleted; err != nil {
		t.Fatalf("delete queue: %v", err)
	}
	d.rotate(t, eager)
	if n := d.count(t, "SELECT count(*)::int FROM deadletter.message"); n != 0 {
		t.Fatalf("%d rows of no queue", n)
	}
}

// await waits until a query answers true.
func (d database) await(t *testing.T, query string) {
	t.Helper()
	for !scalar[bool](t, t.Context(), d.raw, query) {
		if t.Context().Err() != nil {
			t.Fatalf("waited in vain for %s", query)
		}
	}
}

// A pass that read the segments a while ago must not open one after another pass has.
func TestALateRotationOpensNothing(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.mustEnqueue(t, 1)
	d.rotate(t, late)
	d.mustEnqueue(t, 1)
	if opened, err := d.OpenAfter(t.Context(), late, 1); err != nil || opened {
		t.Fatalf("opened after segment 1: %t, %v", opened, err)
	}
	if n := d.slotsInUse(t); n != 2 {
		t.Fatalf("%d segments", n)
	}
}
