package store_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// end claims one message of a queue and finishes or buries it.
func (d database) end(t *testing.T, queue string, well bool) message.Message {
	t.Helper()
	held, err := d.Claim(t.Context(), queue, store.ClaimParams{Max: 1})
	if err != nil || len(held) != 1 {
		t.Fatalf("claimed %d, %v", len(held), err)
	}
	var settled []store.Settled
	if well {
		settled, err = d.Succeed(t.Context(), queue, refs(held))
	} else {
		settled, err = d.Fail(t.Context(), queue, []store.FailedLease{{
			LeaseRef: refs(held)[0], Report: message.Report{Permanent: true},
		}})
	}
	if err != nil || settled[0].Err != nil {
		t.Fatalf("settled %v, %v", settled, err)
	}
	return held[0]
}

func (d database) follow(t *testing.T, id int64) store.Run {
	t.Helper()
	run, err := d.FollowRun(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestRunFollowsItsMessagesToTheirEnd(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, make([]death, 5)...)
	run := d.startRun(t, runSpec("1"))
	run = d.step(t, run.ID, 10)
	if run.State != store.RunCompleted || run.Pending() != 5 {
		t.Fatalf("run is %+v", run)
	}
	first := d.end(t, orders, true)
	second := d.end(t, orders, false)
	retried, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Fail(t.Context(), orders, []store.FailedLease{{LeaseRef: refs(retried)[0]}}); err != nil {
		t.Fatal(err)
	}
	if run = d.follow(t, run.ID); run.Succeeded != 1 || run.Redied != 1 || run.Pending() != 3 {
		t.Fatalf("run is %+v: a retry is no end", run)
	}
	// What the run's message does after it has died again is no longer the run's.
	if _, err := d.Replay(t.Context(), orders, second.ID); err != nil {
		t.Fatal(err)
	}
	d.elapse(t, time.Hour)
	if _, err := d.Purge(t.Context(), orders, message.Pending, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, err := d.FoldOutcomes(t.Context(), 100); err != nil || n != 3 {
		t.Fatalf("folded %d, %v", n, err)
	}
	if run = d.follow(t, run.ID); run.Succeeded != 1 || run.Redied != 1 || run.Removed != 3 || run.Pending() != 0 {
		t.Fatalf("run is %+v", run)
	}
	items, err := d.RunItems(t.Context(), run.ID, 0, 2)
	want := []store.RunItem{
		{Position: 1, MessageID: ids[0], State: "replayed", Outcome: "succeeded"},
		{Position: 2, MessageID: ids[1], State: "replayed", Outcome: "redied"},
	}
	if diff := cmp.Diff(want, items); diff != "" || err != nil || first.ID != ids[0] {
		t.Fatalf("items, %v:\n%s", err, diff)
	}
	if items, err = d.RunItems(t.Context(), run.ID, 2, 10); err != nil || len(items) != 3 {
		t.Fatalf("%d more items, %v", len(items), err)
	}
	d.check(t)
}

func TestRunsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, death{})
	var ids []int64
	for _, name := range []string{"1", "2", "3"} {
		run := d.startRun(t, runSpec(name))
		ids = append(ids, run.ID)
	}
	first, err := d.Runs(t.Context(), orders, 0, 2)
	if err != nil || len(first) != 2 || first[0].ID != ids[2] || first[1].ID != ids[1] {
		t.Fatalf("the first page is %+v, %v", first, err)
	}
	last, err := d.Runs(t.Context(), orders, ids[1], 2)
	if err != nil || len(last) != 1 || last[0].ID != ids[0] {
		t.Fatalf("the last page is %+v, %v", last, err)
	}
	if run, err := d.Run(t.Context(), orders, ids[0]); err != nil || run.Key.RunID != "1" {
		t.Fatalf("run is %+v, %v", run, err)
	}
	if _, err := d.Run(t.Context(), "other", ids[0]); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("another queue's run: %v", err)
	}
}

func TestCanaryGoesNoFurtherUntilItHasEnded(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, make([]death, 6)...)
	spec := runSpec("1")
	spec.Plan.Canary = store.RunCanary{Messages: 2, DeadlineSeconds: 60}
	run := d.startRun(t, spec)
	for range 3 {
		run = d.step(t, run.ID, 100)
	}
	if run.Replayed != 2 || run.State != store.RunRunning || run.CanarySentAt == nil || run.Plan != spec.Plan {
		t.Fatalf("run is %+v", run)
	}
	d.end(t, orders, true)
	d.follow(t, run.ID)
	if err := d.PassCanary(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if run = d.step(t, run.ID, 100); run.Replayed != 2 || run.CanaryPassedAt != nil {
		t.Fatalf("passed while a canary message is pending: %+v", run)
	}
	d.end(t, orders, true)
	d.follow(t, run.ID)
	if err := d.PassCanary(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if run = d.step(t, run.ID, 100); run.Replayed != 6 || run.State != store.RunCompleted {
		t.Fatalf("run is %+v", run)
	}
}

func TestAbortKeepsTheRestDead(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, make([]death, 3)...)
	run := d.startRun(t, runSpec("1"))
	d.step(t, run.ID, 1)
	for range 2 {
		var err error
		if run, err = d.AbortRun(t.Context(), run.ID, "too many"); err != nil {
			t.Fatal(err)
		}
	}
	if run.State != store.RunAborted || run.AbortReason != "too many" || run.Remaining != 2 {
		t.Fatalf("run is %+v", run)
	}
	if again := d.step(t, run.ID, 10); again.Replayed != 1 {
		t.Fatalf("an aborted run moved: %+v", again)
	}
	if next := d.startRun(t, runSpec("2")); next.Matched != 2 {
		t.Fatalf("next run is %+v", next)
	}
}

func TestRunEditsPayloads(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, make([]death, 3)...)
	spec := runSpec("1")
	spec.Plan.Transform = store.RunTransform{Language: "jq", Program: "."}
	run := d.startRun(t, spec)
	edit := func(m message.Message) ([]byte, error) {
		switch m.ID {
		case ids[0]:
			return append([]byte("edited "), m.Payload...), nil
		case ids[1]:
			return nil, errors.New("not JSON")
		default:
			return m.Payload, nil
		}
	}
	run, err := d.StepRun(t.Context(), run.ID, 10, edit)
	if err != nil || run.Replayed != 2 || run.Failed != 1 || run.State != store.RunCompleted {
		t.Fatalf("run is %+v, %v", run, err)
	}
	for i, want := range []string{"edited p", "p", "p"} {
		if m, err := d.Get(t.Context(), orders, ids[i]); err != nil || string(m.Payload) != want {
			t.Errorf("payload %d is %q, %v", i, m.Payload, err)
		}
	}
	if m, _ := d.Get(t.Context(), orders, ids[1]); m.Status != message.Dead {
		t.Errorf("the letter that could not be edited is %s", m.Status)
	}
	items, err := d.RunItems(t.Context(), run.ID, 0, 10)
	if err != nil || items[1].State != "failed" || items[1].Error != "not JSON" {
		t.Errorf("items are %+v, %v", items, err)
	}
	// Again, and it is found again: what the producer sent stays for ever.
	d.end(t, orders, false)
	run = d.startRun(t, runSpec("2"))
	if _, err = d.StepRun(t.Context(), run.ID, 10, func(m message.Message) ([]byte, error) {
		return append([]byte("re"), m.Payload...), nil
	}); err != nil {
		t.Fatal(err)
	}
	d.end(t, orders, true)
	d.end(t, orders, false)
	letter, err := d.DeadLetter(t.Context(), orders, ids[0])
	if err != nil || len(letter.Revisions) != 2 || letter.Revisions[0].Size != 1 ||
		letter.Revisions[0].Source != "shop/fix/1" || letter.Revisions[1].Number != 2 {
		t.Errorf("letter is %+v, %v", letter, err)
	}
	if original, err := d.Revision(t.Context(), orders, ids[0], 1); err != nil || string(original) != "p" {
		t.Errorf("the original is %q, %v", original, err)
	}
	if _, err := d.Revision(t.Context(), orders, ids[0], 3); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a revision that is not there: %v", err)
	}
	d.check(t)
}

// TestRunEditsLargePayloadsInPortions: a step reads no more than it must.
func TestRunEditsLargePayloadsInPortions(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, make([]death, 7)...)
	d.exec(t, "UPDATE deadletter.message SET payload = convert_to(repeat('x', 1048576), 'UTF8')")
	run := d.startRun(t, runSpec("1"))
	keep := func(m message.Message) ([]byte, error) { return m.Payload, nil }
	var steps []int64
	for before := int64(0); run.State == store.RunRunning; before = run.Replayed {
		var err error
		if run, err = d.StepRun(t.Context(), run.ID, 100, keep); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, run.Replayed-before)
	}
	if diff := cmp.Diff([]int64{4, 3}, steps); diff != "" {
		t.Error(diff)
	}
}

func TestRunIntoAnotherQueue(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, make([]death, 2)...)
	spec := runSpec("1")
	spec.Plan.Target = "repair"
	run := d.startRun(t, spec)
	if _, err := d.StepRun(t.Context(), run.ID, 10, nil); !errors.Is(err, store.ErrNoTargetQueue) {
		t.Fatalf("without the queue: %v", err)
	}
	d.check(t)
	d.declare(t, "repair", livesFor(time.Hour))
	if run = d.step(t, run.ID, 10); run.Replayed != 2 {
		t.Fatalf("run is %+v", run)
	}
	d.check(t)
	m := d.end(t, "repair", false)
	if m.ID != ids[0] || m.ExpiresAt == nil {
		t.Fatalf("claimed %+v", m)
	}
	letter, err := d.DeadLetter(t.Context(), "repair", ids[0])
	if err != nil || letter.Replays[0].MovedFrom != orders {
		t.Fatalf("letter is %+v, %v", letter, err)
	}
	d.end(t, "repair", true)
	if run = d.follow(t, run.ID); run.Succeeded != 1 || run.Redied != 1 {
		t.Fatalf("run is %+v", run)
	}
	d.check(t)
}

func TestRunSelectsByAFunction(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, reasons("A: 0", "A: 1", "B: 2", "A: 3", "A: 4")...)
	spec := runSpec("1")
	spec.Filter.Categories = []message.Category{"A"}
	spec.MaxMessages = 2
	spec.Match = func(m message.Message) (bool, error) {
		n, err := strconv.Atoi(m.LastFailure.Reason)
		if err != nil || n == 1 {
			return false, errors.New("cannot be decided")
		}
		return true, nil
	}
	run := d.startRun(t, spec)
	if run.Matched != 3 || run.Remaining != 2 || run.BeyondLimit != 1 || run.Unmatchable != 1 {
		t.Fatalf("run is %+v", run)
	}
	// Numbers make no difference to a fingerprint.
	if len(run.Fingerprints) != 1 || run.Fingerprints[0].Count != 2 {
		t.Fatalf("fingerprints are %+v", run.Fingerprints)
	}
	items, err := d.RunItems(t.Context(), run.ID, 0, 10)
	if err != nil || len(items) != 2 || items[0].MessageID != ids[0] || items[1].MessageID != ids[3] {
		t.Fatalf("items are %+v, %v", items, err)
	}
	spec = runSpec("2")
	spec.Match = func(message.Message) (bool, error) { return false, nil }
	if run := d.startRun(t, spec); run.Matched != 0 || run.State != store.RunCompleted {
		t.Fatalf("run is %+v", run)
	}
}
