package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

const orders = "orders"

// death is a message to enqueue and the failure that kills it.
type death struct {
	message store.NewMessage
	report  message.Report
}

// bury enqueues messages and kills each at once, a minute apart, oldest first. It returns their ids.
func (d database) bury(t *testing.T, deaths ...death) []int64 {
	t.Helper()
	ids := make([]int64, len(deaths))
	for i, death := range deaths {
		death.message.Payload = []byte("p")
		death.report.Permanent = true
		d.elapse(t, time.Minute)
		if _, err := d.Enqueue(t.Context(), orders, []store.NewMessage{death.message}); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1})
		if err != nil || len(held) != 1 {
			t.Fatalf("claim %d: %v", len(held), err)
		}
		ids[i] = held[0].ID
		failed := store.FailedLease{LeaseRef: store.LeaseRef{ID: ids[i]}, Report: death.report}
		settled, err := d.Fail(t.Context(), orders, []store.FailedLease{failed})
		if err != nil || settled[0].Err != nil {
			t.Fatalf("fail: %v, %v", err, settled)
		}
	}
	return ids
}

func reasons(texts ...string) []death {
	deaths := make([]death, len(texts))
	for i, text := range texts {
		category, reason, _ := strings.Cut(text, ": ")
		deaths[i].report = message.Report{Category: category, Reason: reason}
	}
	return deaths
}

func letterIDs(letters []store.DeadLetter) []int64 {
	ids := make([]int64, len(letters))
	for i, letter := range letters {
		ids[i] = letter.Message.ID
	}
	return ids
}

func TestDeadLetterFilters(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t,
		death{
			store.NewMessage{Headers: []message.Header{{Name: "tenant", Value: "a"}, {Name: "tenant", Value: "b"}}},
			message.Report{Category: "EXTERNAL", Reason: "timeout after 5%_x", ErrorClass: "IOError"},
		},
		death{
			store.NewMessage{},
			message.Report{Category: "VALIDATION", Reason: `bad \ value`, Consumer: message.Consumer{Version: "2"}},
		},
		death{store.NewMessage{}, message.Report{Reason: "timeout after 5abx"}},
	)
	letter := func(i int) store.DeadLetter {
		found, err := d.DeadLetter(t.Context(), orders, ids[i])
		if err != nil {
			t.Fatalf("dead letter: %v", err)
		}
		return found
	}
	zero := 0
	cases := map[string]struct {
		filter store.DeadLetterFilter
		want   []int64
	}{
		"everything":         {store.DeadLetterFilter{}, []int64{ids[2], ids[1], ids[0]}},
		"category":           {store.DeadLetterFilter{Categories: []message.Category{"EXTERNAL", "UNKNOWN"}}, []int64{ids[2], ids[0]}},
		"fingerprint":        {store.DeadLetterFilter{Fingerprints: []string{letter(1).Message.LastFailure.Fingerprint}}, ids[1:2]},
		"error class":        {store.DeadLetterFilter{ErrorClass: "IOError"}, ids[:1]},
		"wildcards are text": {store.DeadLetterFilter{ReasonContains: "5%_x"}, ids[:1]},
		"backslash is text":  {store.DeadLetterFilter{ReasonContains: `\ v`}, ids[1:2]},
		"case counts":        {store.DeadLetterFilter{ReasonContains: "TIMEOUT"}, []int64{}},
		"consumer version":   {store.DeadLetterFilter{ConsumerVersions: []string{"2"}}, ids[1:2]},
		"died after":         {store.DeadLetterFilter{DiedAfter: *letter(1).Message.DeadAt}, []int64{ids[2], ids[1]}},
		"died before":        {store.DeadLetterFilter{DiedBefore: *letter(1).Message.DeadAt}, ids[:1]},
		"replay count":       {store.DeadLetterFilter{ReplayCount: &zero, IDs: ids[:2]}, []int64{ids[1], ids[0]}},
		"second header":      {store.DeadLetterFilter{Headers: []message.Header{{Name: "tenant", Value: "b"}}}, ids[:1]},
		"other value":        {store.DeadLetterFilter{Headers: []message.Header{{Name: "tenant", Value: "c"}}}, []int64{}},
		"ids":                {store.DeadLetterFilter{IDs: []int64{ids[0], 1 << 60}}, ids[:1]},
		"all must hold":      {store.DeadLetterFilter{ErrorClass: "IOError", ConsumerVersions: []string{"2"}}, []int64{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := d.DeadLetters(t.Context(), orders, c.filter, store.DeadLetterCursor{}, 10)
			if err != nil {
				t.Fatalf("list: %v", err)
			}
			if diff := cmp.Diff(c.want, letterIDs(page.Letters)); diff != "" {
				t.Fatalf("ids (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeadLetterWalkUnderWrites(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ids := d.bury(t, make([]death, 20)...)
	seen := map[int64]int{}
	cursor := store.DeadLetterCursor{}
	for {
		page, err := d.DeadLetters(t.Context(), orders, store.DeadLetterFilter{}, cursor, 3)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, letter := range page.Letters {
			seen[letter.Message.ID]++
		}
		d.bury(t, death{})
		// A letter that was listed comes back and dies again: it moves to the head, behind the walk.
		if _, err := d.Replay(t.Context(), orders, page.Letters[0].Message.ID); err != nil {
			t.Fatalf("replay: %v", err)
		}
		d.elapse(t, 0)
		if page.Next == nil {
			break
		}
		cursor = *page.Next
		cursor.DiedAt = cursor.DiedAt.Add(-time.Minute) // bury lets a minute pass for everything stored
	}
	for _, id := range ids {
		if seen[id] != 1 {
			t.Fatalf("letter %d was listed %d times", id, seen[id])
		}
	}
}

func TestHistoryKeepsOldestAndNewest(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	const cycles = 60
	id := d.bury(t, reasons("EXTERNAL: first")...)[0]
	for i := range cycles {
		if _, err := d.Replay(t.Context(), orders, id); err != nil {
			t.Fatalf("replay: %v", err)
		}
		if _, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1}); err != nil {
			t.Fatalf("claim: %v", err)
		}
		report := message.Report{Reason: fmt.Sprint("again ", i), Permanent: true, StackTrace: fmt.Sprint("frame ", i)}
		failed := store.FailedLease{LeaseRef: store.LeaseRef{ID: id}, Report: report}
		if _, err := d.Fail(t.Context(), orders, []store.FailedLease{failed}); err != nil {
			t.Fatalf("fail: %v", err)
		}
	}
	letter, err := d.DeadLetter(t.Context(), orders, id)
	if err != nil {
		t.Fatalf("dead letter: %v", err)
	}
	attempts := letter.Attempts
	first, last := attempts[0], attempts[len(attempts)-1]
	if len(attempts) != 50 || first.Number != 1 || first.Failure.Reason != "first" || last.Number != cycles+1 ||
		last.Failure.StackTrace != fmt.Sprint("frame ", cycles-1) {
		t.Fatalf("%d attempts, first %+v, last %+v", len(attempts), first, last)
	}
	if len(letter.Replays) != 50 || letter.Replays[0].Category != "EXTERNAL" || letter.Replays[0].Source != "api" {
		t.Fatalf("%d replays, first %+v", len(letter.Replays), letter.Replays[0])
	}
	if letter.Message.LastFailure.StackTrace != fmt.Sprint("frame ", cycles-1) || letter.Message.ReplayCount != cycles {
		t.Fatalf("letter is %+v", letter.Message)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	deaths := reasons("EXTERNAL: order 1 timed out", "EXTERNAL: order 22 timed out",
		"VALIDATION: order 1 timed out", "EXTERNAL: order 333 timed out")
	deaths[0].report.Consumer.Version, deaths[3].report.Consumer.Version = "v2", "v1"
	ids := d.bury(t, deaths...)
	groups, err := d.DeadLetterGroups(t.Context(), orders, 10)
	if err != nil || len(groups) != 2 {
		t.Fatalf("groups: %+v, %v", groups, err)
	}
	g := groups[0]
	if g.Count != 3 || g.Category != "EXTERNAL" || g.SampleID != ids[3] || g.SampleReason != "order 333 timed out" ||
		g.LastDiedAt.Sub(g.FirstDiedAt) < 3*time.Minute {
		t.Fatalf("group is %+v", g)
	}
	if diff := cmp.Diff([]string{"v1", "v2"}, g.ConsumerVersions); diff != "" {
		t.Fatalf("versions (-want +got):\n%s", diff)
	}
	if groups, err := d.DeadLetterGroups(t.Context(), "none", 10); err != nil || len(groups) != 0 {
		t.Fatalf("groups of no queue: %+v, %v", groups, err)
	}
}

// Letters of one batch die at the same moment.
func TestDeadLetterPagesSplitOneMoment(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.bury(t, make([]death, 5)...)
	d.exec(t, "UPDATE deadletter.message SET dead_at = now()")
	seen := map[int64]bool{}
	cursor := store.DeadLetterCursor{}
	for range 5 {
		page, err := d.DeadLetters(t.Context(), orders, store.DeadLetterFilter{}, cursor, 1)
		if err != nil || len(page.Letters) != 1 {
			t.Fatalf("page of %d letters, %v", len(page.Letters), err)
		}
		seen[page.Letters[0].Message.ID] = true
		if page.Next != nil {
			cursor = *page.Next
		}
	}
	if len(seen) != 5 {
		t.Fatalf("%d of 5 letters were listed", len(seen))
	}
}
