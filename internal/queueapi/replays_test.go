package queueapi_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

type shownRun struct {
	ID         int64
	RunID      string `json:"run_id"`
	State      string
	Counts     map[string]int64
	Categories []struct {
		Value string
		Count int64
	}
}

type replayedPage struct {
	Messages []struct {
		MessageID int64 `json:"message_id"`
		State     string
		Error     *string
		Outcome   *string
	}
	NextCursor *string `json:"next_cursor"`
}

// bury makes n dead letters and returns their ids.
func (s *server) bury(queue string, n int) []int64 {
	s.t.Helper()
	ids := make([]int64, n)
	for i := range ids {
		s.enqueue(queue, payloadOf(strconv.Itoa(i)))
		ids[i] = s.claim(queue).ID
		report := `{"category":"EXTERNAL","retryable":false}`
		s.do(http.MethodPost, itemPath(queue, ids[i])+"/fail", report).want(http.StatusOK)
	}
	return ids
}

// replayRun starts a run of all dead letters of a queue.
func (s *server) replayRun(queue, runID string, plan store.RunPlan) store.Run {
	s.t.Helper()
	run, _, err := s.store.StartRun(s.t.Context(), store.RunSpec{
		Key:  store.RunKey{Queue: queue, Namespace: "shop", Name: "fix", RunID: runID},
		Hash: "h", Mode: store.RunExecute, MaxMessages: 100, MaxReplaysPerMessage: 3, Plan: plan,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func TestReplayRunsShowWhatBecameOfTheirMessages(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ids := s.bury("orders", 3)
	run := s.replayRun("orders", "1", store.RunPlan{})
	s.replayRun("orders", "2", store.RunPlan{}) // It finds its letters taken.
	if _, err := s.store.StepRun(t.Context(), run.ID, 2, nil); err != nil {
		t.Fatal(err)
	}
	held := s.claim("orders")
	s.do(http.MethodPost, itemPath("orders", held.ID)+"/succeed", nil).want(http.StatusOK)
	if n, err := s.store.FoldOutcomes(t.Context(), 10); err != nil || n != 1 {
		t.Fatalf("folded %d, %v", n, err)
	}
	path := fmt.Sprintf("%s/replays/%d", queuePath("orders"), run.ID)
	got := decode[shownRun](s.do(http.MethodGet, path, nil).want(http.StatusOK))
	want := map[string]int64{
		"matched": 3, "replayed": 2, "skipped": 0, "failed": 0, "remaining": 1, "beyond_limit": 0, "unmatchable": 0,
		"succeeded": 1, "redied": 0, "removed": 0, "pending": 1,
	}
	if diff := cmp.Diff(want, got.Counts); diff != "" || got.State != "Running" || got.RunID != "1" {
		t.Errorf("the run is shown as %+v: %s", got, diff)
	}
	if len(got.Categories) != 1 || got.Categories[0].Value != "EXTERNAL" || got.Categories[0].Count != 3 {
		t.Errorf("categories are %+v", got.Categories)
	}
	var seen []int64
	for cursor := ""; ; {
		page := decode[replayedPage](s.do(http.MethodGet, path+"/messages?limit=2"+cursor, nil).want(http.StatusOK))
		for _, m := range page.Messages {
			seen = append(seen, m.MessageID)
			if done := m.Outcome != nil && *m.Outcome == "succeeded"; done != (m.MessageID == held.ID) || m.Error != nil {
				t.Errorf("item %+v", m)
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if diff := cmp.Diff(ids, seen); diff != "" {
		t.Errorf("the run's messages: %s", diff)
	}
}

func TestReplayRunsAreListed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	type page struct {
		Replays    []shownRun
		NextCursor *string `json:"next_cursor"`
	}
	replays := queuePath("orders") + "/replays"
	s.do(http.MethodGet, replays, nil).problem(http.StatusNotFound, "not-found")
	s.bury("orders", 1)
	if got := decode[page](s.do(http.MethodGet, replays, nil).want(http.StatusOK)); len(got.Replays) != 0 {
		t.Errorf("runs before the first: %+v", got)
	}
	for _, runID := range []string{"1", "2", "3"} {
		s.replayRun("orders", runID, store.RunPlan{})
	}
	first := decode[page](s.do(http.MethodGet, replays+"?limit=2", nil).want(http.StatusOK))
	second := decode[page](s.do(http.MethodGet, replays+"?limit=2&cursor="+*first.NextCursor, nil).want(http.StatusOK))
	if len(first.Replays) != 2 || first.Replays[0].RunID != "3" || len(second.Replays) != 1 || second.NextCursor != nil {
		t.Errorf("pages are %+v and %+v", first, second)
	}
	s.do(http.MethodGet, replays+"/999", nil).problem(http.StatusNotFound, "not-found")
	s.do(http.MethodGet, replays+"/999/messages", nil).problem(http.StatusNotFound, "not-found")
	s.do(http.MethodGet, replays+"?cursor=x", nil).problem(http.StatusUnprocessableEntity, "invalid-request")
}

func TestEditedLetterShowsItsRevisions(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.declare("repair", func(*message.Settings) {})
	id := s.bury("orders", 1)[0]
	run := s.replayRun("orders", "1", store.RunPlan{Target: "repair"})
	edit := func(message.Message) ([]byte, error) { return []byte("edited\xff"), nil }
	if _, err := s.store.StepRun(t.Context(), run.ID, 1, edit); err != nil {
		t.Fatal(err)
	}
	s.claim("repair")
	s.do(http.MethodPost, itemPath("repair", id)+"/fail", `{"retryable":false}`).want(http.StatusOK)
	type letter struct {
		Envelope struct {
			OriginalQueue string `json:"original_queue"`
		} `json:"dlq_envelope"`
		Replays []struct {
			MovedFrom *string `json:"moved_from"`
		}
		Revisions []struct {
			Number, Size int
			Source       string
		}
	}
	got := decode[letter](s.do(http.MethodGet, letterPath("repair", id), nil).want(http.StatusOK))
	if got.Envelope.OriginalQueue != "orders" || *got.Replays[0].MovedFrom != "orders" || len(got.Revisions) != 1 ||
		got.Revisions[0].Source != "shop/fix/1" || got.Revisions[0].Size != 1 {
		t.Errorf("the letter is shown as %+v", got)
	}
	type revision struct{ Payload string }
	revisions := itemPath("repair", id) + "/revisions/"
	if was := decode[revision](s.do(http.MethodGet, revisions+"1", nil).want(http.StatusOK)); was.Payload != "0" {
		t.Errorf("the payload before the edit is shown as %+v", was)
	}
	for _, number := range []string{"0", "2", "01", "x", "99999999999"} {
		s.do(http.MethodGet, revisions+number, nil).problem(http.StatusNotFound, "not-found")
	}
}
