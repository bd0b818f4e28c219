package client

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReplayRunsAndRevisions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	dead := b.bury(NewMessage{Payload: []byte{0xff}}, FailureReport{Error: "no", Category: External})
	b.api.replayAll(t, b.queue, "one", "edited")
	if _, err := b.Fail(ctx, b.take(ClaimOptions{}).Lease(), FailureReport{Permanent: true}); err != nil {
		t.Fatal(err)
	}
	b.api.replayAll(t, b.queue, "two", "")

	runs := collect(t, b.ReplayRuns(ctx, b.queue))
	if len(runs) != 2 || runs[0].RunID != "two" || runs[1].RunID != "one" {
		t.Fatalf("the runs are %+v", runs)
	}
	run, err := b.ReplayRun(ctx, b.queue, runs[1].ID)
	if err != nil || run.Namespace != "default" || run.Name != "replay" || run.Mode != "Execute" ||
		run.Counts.Matched != 1 || run.Counts.Replayed != 1 || run.StartedAt.IsZero() ||
		!run.OldestDiedAt.Equal(dead.DeadAt) {
		t.Errorf("the run is %+v: %v", run, err)
	}
	if diff := cmp.Diff([]ValueCount{{"EXTERNAL", 1}}, run.Categories); diff != "" {
		t.Error(diff)
	}
	letters := collect(t, b.ReplayedMessages(ctx, b.queue, run.ID))
	if len(letters) != 1 || letters[0].MessageID != dead.ID || letters[0].State != "replayed" {
		t.Errorf("its letters are %+v", letters)
	}
	payload, err := b.Revision(ctx, b.queue, dead.ID, 1)
	if err != nil || string(payload) != "\xff" {
		t.Errorf("before the edit it was %q: %v", payload, err)
	}
	if got := b.get(dead.ID); string(got.Payload) != "edited" || got.ReplayCount != 2 {
		t.Errorf("now it is %q, after %d replays", got.Payload, got.ReplayCount)
	}
	for name, err := range map[string]error{
		"run":      third(b.ReplayRun(ctx, b.queue, 1<<40)),
		"revision": third(b.Revision(ctx, b.queue, dead.ID, 2)),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("no such %s: %v", name, err)
		}
	}
	for _, err := range b.ReplayRuns(ctx, "unknown") {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("no such queue: %v", err)
		}
	}
}

func third[T any](_ T, err error) error { return err }
