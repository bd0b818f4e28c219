package store_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

var owner = store.Owner{Namespace: "shop", Name: orders}

func (d database) mustEnqueue(t *testing.T, n int) {
	t.Helper()
	messages := make([]store.NewMessage, n)
	for i := range messages {
		messages[i].Payload = []byte("p")
	}
	if _, err := d.Enqueue(t.Context(), orders, messages); err != nil {
		t.Fatalf("enqueue: %v", err)
	}
}

func TestDeclareTwiceWritesNothing(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	settings := message.DefaultSettings()
	for i, want := range []bool{true, false} {
		changed, err := d.DeclareQueue(t.Context(), orders, owner, settings)
		if err != nil || changed != want {
			t.Fatalf("declaration %d: changed %v, %v", i+1, changed, err)
		}
	}
	settings.MaxDeliveries++
	settings.Backoff.JitterPercent = 7
	if changed, err := d.DeclareQueue(t.Context(), orders, owner, settings); err != nil || !changed {
		t.Fatalf("change: %v, %v", changed, err)
	}
	info, err := d.Queue(t.Context(), orders)
	if err != nil || info.Settings != settings || info.Owner != owner || !info.Declared {
		t.Fatalf("queue is %+v, %v", info, err)
	}
}

func TestUndeclareKeepsTheMessages(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, message.DefaultSettings())
	d.mustEnqueue(t, 2)
	if err := d.UndeclareQueue(t.Context(), orders, store.Owner{Namespace: "other", Name: orders}); err != nil {
		t.Fatalf("undeclare as another: %v", err)
	}
	if info, err := d.Queue(t.Context(), orders); err != nil || !info.Declared {
		t.Fatalf("another owner let go of it: %+v, %v", info, err)
	}
	if err := d.UndeclareQueue(t.Context(), orders, owner); err != nil {
		t.Fatalf("undeclare: %v", err)
	}
	if info, err := d.Queue(t.Context(), orders); err != nil || info.Declared || info.Depth.Pending != 2 {
		t.Fatalf("queue is %+v, %v", info, err)
	}
}

func TestDenyUndeclaredQueues(t *testing.T) {
	t.Parallel()
	allowing := newDatabase(t)
	denying := openDatabase(t, allowing.url, store.Options{DenyUndeclaredQueues: true})
	send := func() error {
		_, err := denying.Enqueue(t.Context(), orders, []store.NewMessage{{Payload: []byte("p")}})
		return err
	}
	if err := send(); !errors.Is(err, store.ErrUndeclaredQueue) {
		t.Fatalf("enqueue to an unknown queue: %v", err)
	}
	allowing.mustEnqueue(t, 1)
	if err := send(); !errors.Is(err, store.ErrUndeclaredQueue) {
		t.Fatalf("enqueue to an undeclared queue: %v", err)
	}
	allowing.declare(t, orders, message.DefaultSettings())
	if err := send(); err != nil {
		t.Fatalf("enqueue to a declared queue: %v", err)
	}
}

func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, message.DefaultSettings())
	d.mustEnqueue(t, 1000)
	d.mustEnqueue(t, 1000)
	if err := d.DeleteQueue(t.Context(), orders, owner, true); !errors.Is(err, store.ErrQueueNotEmpty) {
		t.Fatalf("delete if empty: %v", err)
	}
	other := store.Owner{Namespace: "other", Name: orders}
	if err := d.DeleteQueue(t.Context(), orders, other, false); !errors.Is(err, store.ErrNotOwner) {
		t.Fatalf("delete as another: %v", err)
	}
	for range 2 {
		if err := d.DeleteQueue(t.Context(), orders, owner, false); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	for _, table := range []string{"message", "queue", "depth", "depth_delta", "attempt", "replay"} {
		if n := d.count(t, "SELECT count(*)::int FROM deadletter."+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
}

func TestDeleteIfEmptyTakesFinishedMessages(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.mustEnqueue(t, 1)
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	if err := d.DeleteQueue(t.Context(), orders, owner, true); !errors.Is(err, store.ErrQueueNotEmpty) {
		t.Fatalf("delete while leased: %v", err)
	}
	if _, err := d.Succeed(t.Context(), orders, []store.LeaseRef{{ID: held[0].ID}}); err != nil {
		t.Fatalf("succeed: %v", err)
	}
	if err := d.DeleteQueue(t.Context(), orders, owner, true); err != nil {
		t.Fatalf("delete: %v", err)
	}
}

func TestQueuePages(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	names := []string{"a", "a/b", "b", "ü"}
	for _, name := range names {
		d.declare(t, name, message.DefaultSettings())
	}
	var got []string
	after := ""
	for {
		page, err := d.Queues(t.Context(), after, 2)
		if err != nil {
			t.Fatalf("queues: %v", err)
		}
		for _, info := range page {
			got = append(got, info.Name)
		}
		if len(page) < 2 {
			break
		}
		after = page[1].Name
	}
	if len(got) != len(names) {
		t.Fatalf("queues are %q", got)
	}
}

func TestDepthAges(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	late := store.NewMessage{Payload: []byte("late"), Delay: time.Hour}
	if _, err := d.Enqueue(t.Context(), orders, []store.NewMessage{late}); err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	depth := func() store.Depth {
		info, err := d.Queue(t.Context(), orders)
		if err != nil {
			t.Fatalf("queue: %v", err)
		}
		return info.Depth
	}
	if got := depth(); got.Pending != 1 || got.OldestReadyAt != nil || got.OldestDeadAt != nil {
		t.Fatalf("a delayed message counts as ready: %+v", got)
	}
	d.bury(t, death{}, death{})
	d.elapse(t, time.Hour)
	got := depth()
	if got.Dead != 2 || got.OldestDeadAt == nil || got.ObservedAt.Sub(*got.OldestDeadAt) < time.Hour+time.Minute {
		t.Fatalf("depth is %+v", got)
	}
	if got.OldestReadyAt == nil || got.ObservedAt.Before(*got.OldestReadyAt) {
		t.Fatalf("depth is %+v", got)
	}
}

// Deleting a queue holds up nobody else, not even while a vacuum keeps the table's lock, and deadlocks with nobody.
func TestDeleteQueueLocksOnlyItsQueue(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, make([]death, 20)...)
	run := d.startRun(t, runSpec("1"))
	tx, err := d.raw.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE deadletter.message IN SHARE UPDATE EXCLUSIVE MODE"); err != nil {
		t.Fatalf("lock as a vacuum does: %v", err)
	}
	var group errgroup.Group
	group.Go(func() error {
		for {
			run, err := d.StepRun(t.Context(), run.ID, 1, nil)
			if err != nil || run.State != store.RunRunning {
				return err
			}
		}
	})
	group.Go(func() error { return d.DeleteQueue(t.Context(), orders, owner, false) })
	if err := group.Wait(); err != nil {
		t.Fatalf("delete beside a step and a vacuum: %v", err)
	}
}
