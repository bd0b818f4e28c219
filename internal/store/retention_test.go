package store_test

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
	"deadletter.dev/deadletter/internal/store/storetest"
)

func (d database) retain(t *testing.T, limit int) store.RetentionResult {
	t.Helper()
	result, err := d.EnforceRetention(t.Context(), limit)
	if err != nil {
		t.Fatalf("enforce retention: %v", err)
	}
	// Succeeded messages of the log go with their segment.
	for range 2 {
		result.Succeeded += int(d.rotate(t, eager).Removed)
	}
	return result
}

func TestRetentionCountsFromTheEnd(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	settings := message.DefaultSettings()
	settings.Retention = message.Retention{Succeeded: time.Hour, Dead: 2 * time.Hour, OnDeadExpiry: message.ExpiryDelete}
	d.declare(t, orders, settings)
	d.mustEnqueue(t, 3)
	// Old when it dies: the clock starts at death, not at enqueue.
	d.elapse(t, 30*24*time.Hour)
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 2})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	if _, err := d.Succeed(t.Context(), orders, []store.LeaseRef{{ID: held[0].ID}}); err != nil {
		t.Fatalf("succeed: %v", err)
	}
	report := message.Report{Permanent: true}
	failed := store.FailedLease{LeaseRef: store.LeaseRef{ID: held[1].ID}, Report: report}
	if _, err := d.Fail(t.Context(), orders, []store.FailedLease{failed}); err != nil {
		t.Fatalf("fail: %v", err)
	}
	for _, step := range []struct {
		pass time.Duration
		want store.RetentionResult
	}{
		{0, store.RetentionResult{}},
		{time.Hour - time.Minute, store.RetentionResult{}},
		{time.Minute, store.RetentionResult{Succeeded: 1}},
		{time.Hour, store.RetentionResult{Dead: 1}},
		{365 * 24 * time.Hour, store.RetentionResult{}},
	} {
		d.elapse(t, step.pass)
		if got := d.retain(t, 10); got != step.want {
			t.Fatalf("after %s more: %+v, want %+v", step.pass, got, step.want)
		}
	}
	if n := d.count(t, "SELECT count(*)::int FROM ("+
		storetest.MessagesSQL(schema)+") m WHERE status = 'pending'"); n != 1 {
		t.Fatalf("%d pending messages are left", n)
	}
	d.check(t)
}

func TestRetentionKeeps(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	settings := message.DefaultSettings()
	settings.Retention.OnDeadExpiry = message.ExpiryKeep
	d.declare(t, orders, settings)
	d.bury(t, death{})
	d.elapse(t, 365*24*time.Hour)
	if got := d.retain(t, 10); got != (store.RetentionResult{}) {
		t.Fatalf("removed %+v", got)
	}
}

func TestRetentionGoesInSlices(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, make([]death, 5)...)
	d.elapse(t, 365*24*time.Hour)
	for _, want := range []int{2, 2, 1, 0} {
		if got := d.retain(t, 2); got.Dead != want {
			t.Fatalf("removed %+v, want %d", got, want)
		}
	}
}

func TestRetentionSparesLeasedAndSelected(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, death{}, death{})
	d.mustEnqueue(t, 1)
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	spec := runSpec("keep")
	spec.Filter.IDs = ids[:1]
	run := d.startRun(t, spec)
	// Only the clocks of retention: the lease stays.
	d.exec(t, `UPDATE deadletter.message SET dead_at = dead_at - interval '1 year' WHERE dead_at IS NOT NULL`)
	d.exec(t, `UPDATE deadletter.replay_item SET died_at = died_at - interval '1 year'`)
	if got := d.retain(t, 10); got != (store.RetentionResult{Dead: 1}) {
		t.Fatalf("removed %+v", got)
	}
	if m, err := d.Get(t.Context(), orders, held[0].ID); err != nil || m.Status != message.Processing {
		t.Fatalf("leased message is %+v, %v", m, err)
	}
	if run := d.step(t, run.ID, 10); run.Replayed != 1 || run.State != store.RunCompleted {
		t.Fatalf("run is %+v", run)
	}
}
