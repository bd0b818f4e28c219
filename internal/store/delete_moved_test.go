package store_test

import (
	"testing"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

const somebodyWaits = `SELECT count(*) > 0 FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND datname = current_database()`

// TestDeletionLeavesWhatHasMovedToAnotherQueue: a letter that a run puts into another queue while its own is being
// deleted is not deleted with it.
func TestDeletionLeavesWhatHasMovedToAnotherQueue(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, death{message: store.NewMessage{GroupKey: "k"}}, death{}, death{})
	d.declare(t, "target", message.DefaultSettings())
	spec := runSpec("1")
	spec.Filter.IDs, spec.Plan.Target = ids[1:], "target"
	run := d.startRun(t, spec)
	tx, err := d.raw.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	// The deletion has chosen its messages when it waits for the group's lock.
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(deadletter.group_lock(queue_id, group_key))
		FROM deadletter.message WHERE id = $1`, ids[0]); err != nil {
		t.Fatal(err)
	}
	// Runs of the queue are cancelled first, so this one is another's.
	d.exec(t, "UPDATE deadletter.replay_run SET queue_id = -1")
	deleted := call(func() error { return d.DeleteQueue(t.Context(), orders, store.Owner{}, false) })
	d.await(t, somebodyWaits)
	if run = d.step(t, run.ID, 10); run.Replayed != 2 {
		t.Fatalf("run is %+v", run)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDone(t, deleted)
	for _, id := range ids[1:] {
		if m, err := d.Get(t.Context(), "target", id); err != nil || m.Status != message.Pending {
			t.Errorf("message %d: %+v, %v", id, m.Status, err)
		}
	}
}

// TestDeletionAndAcknowledgementDoNotDeadlock: an acknowledgement holds its messages and wants their groups' locks.
func TestDeletionAndAcknowledgementDoNotDeadlock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	_, err := d.Enqueue(t.Context(), orders, []store.NewMessage{{GroupKey: "a"}, {GroupKey: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 10})
	if err != nil || len(held) != 2 {
		t.Fatalf("claimed %d, %v", len(held), err)
	}
	tx, err := d.raw.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM deadletter.message WHERE id = $1 FOR UPDATE", held[1].ID); err != nil {
		t.Fatal(err)
	}
	acknowledged := call(func() error {
		settled, err := d.Succeed(t.Context(), orders, refs(held))
		if err == nil {
			err = settled[0].Err
		}
		return err
	})
	d.await(t, somebodyWaits)
	deleted := call(func() error { return d.DeleteQueue(t.Context(), orders, store.Owner{}, false) })
	d.await(t, `SELECT count(*) > 1 OR bool_or(query LIKE '%DELETE FROM%') FROM pg_stat_activity
		WHERE datname = current_database() AND (wait_event_type = 'Lock' OR query LIKE '%DELETE FROM%message%ANY%')
		AND pid <> pg_backend_pid()`)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDone(t, acknowledged, deleted)
}
