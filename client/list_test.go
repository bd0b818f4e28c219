package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// collect walks to the end.
func collect[T any](t *testing.T, walk iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for item, err := range walk {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, item)
	}
	return all
}

func TestMessagesAreWalkedToTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ids []int64
	for range 7 {
		ids = append(ids, b.put(text("x")).ID)
	}
	taken := b.take(ClaimOptions{})
	idsOf := func(filter MessageFilter) []int64 {
		var got []int64
		for _, m := range collect(t, b.Messages(t.Context(), b.queue, filter)) {
			got = append(got, m.ID)
		}
		return got
	}
	for name, c := range map[string]struct {
		filter MessageFilter
		want   []int64
	}{
		"all":                  {MessageFilter{}, ids},
		"in pages":             {MessageFilter{PageSize: 3}, ids},
		"after some, in pages": {MessageFilter{PageSize: 2, Offset: 3}, ids[3:]},
		"of a status":          {MessageFilter{Status: Processing}, []int64{taken.ID}},
		"of another, in pages": {MessageFilter{Status: Pending, PageSize: 4}, slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return id == taken.ID })},
		"of none":              {MessageFilter{Status: Dead}, nil},
	} {
		if diff := cmp.Diff(c.want, idsOf(c.filter)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	before := b.wire.count("/messages")
	for _, err := range b.Messages(t.Context(), b.queue, MessageFilter{PageSize: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if fetched := b.wire.count("/messages") - before; fetched != 1 {
		t.Errorf("%d pages were fetched for one message", fetched)
	}
}

func TestWalksEndWithTheError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(text("x"))
	walks := 0
	for m, err := range b.Messages(t.Context(), b.queue, MessageFilter{PageSize: 101}) {
		if walks++; m != nil || !errors.Is(err, ErrInvalid) {
			t.Errorf("%v, %v", m, err)
		}
	}
	for letter, err := range b.DeadLetters(t.Context(), "unknown", DeadLetterFilter{}) {
		if walks++; letter != nil || !errors.Is(err, ErrNotFound) {
			t.Errorf("%v, %v", letter, err)
		}
	}
	if walks != 2 {
		t.Errorf("%d steps", walks)
	}
}

func TestListsCutLongPayloads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := []byte(strings.Repeat("ab", 50_000))
	b.bury(NewMessage{Payload: long}, FailureReport{})
	m := collect(t, b.Messages(t.Context(), b.queue, MessageFilter{}))[0]
	letter := collect(t, b.DeadLetters(t.Context(), b.queue, DeadLetterFilter{}))[0]
	if !m.PayloadTruncated || m.PayloadSize != len(long) || len(m.Payload) >= len(long) ||
		!bytes.HasPrefix(long, m.Payload) {
		t.Errorf("%d of %d bytes, cut: %t", len(m.Payload), m.PayloadSize, m.PayloadTruncated)
	}
	if !letter.BodyTruncated || letter.BodySize != len(long) || !bytes.HasPrefix(long, letter.Body) {
		t.Errorf("%d of %d bytes, cut: %t", len(letter.Body), letter.BodySize, letter.BodyTruncated)
	}
	whole, err := b.DeadLetter(t.Context(), b.queue, m.ID)
	if err != nil || !bytes.Equal(whole.Body, long) || whole.BodyTruncated {
		t.Errorf("%d bytes: %v", len(whole.Body), err)
	}
}

func TestDeadLettersAreFoundByTheirFailure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	first := b.bury(NewMessage{Payload: []byte{0xff}, Headers: []Header{{"tenant", "a:b"}}}, FailureReport{
		Error: "connect to 10.0.0.1: refused", Category: External, ErrorClass: "net.OpError", StackTrace: "one\ntwo",
	})
	second := b.bury(text("2"), FailureReport{
		Error: "connect to 10.0.0.2: refused", Category: External, Consumer: &Consumer{Version: "2.0"},
	})
	third := b.bury(text("3"), FailureReport{Error: "no sku", Category: Validation})
	for name, c := range map[string]struct {
		filter DeadLetterFilter
		want   []int64
	}{
		"all":             {DeadLetterFilter{}, []int64{third.ID, second.ID, first.ID}},
		"in pages":        {DeadLetterFilter{PageSize: 1}, []int64{third.ID, second.ID, first.ID}},
		"category":        {DeadLetterFilter{Categories: []Category{External}}, []int64{second.ID, first.ID}},
		"categories":      {DeadLetterFilter{Categories: []Category{Validation, Auth}, PageSize: 1}, []int64{third.ID}},
		"fingerprint":     {DeadLetterFilter{Fingerprints: []string{first.LastFailure.Fingerprint}}, []int64{second.ID, first.ID}},
		"class":           {DeadLetterFilter{ErrorClass: "net.OpError"}, []int64{first.ID}},
		"version":         {DeadLetterFilter{ConsumerVersion: "2.0"}, []int64{second.ID}},
		"reason":          {DeadLetterFilter{Reason: "10.0.0.1"}, []int64{first.ID}},
		"header":          {DeadLetterFilter{Header: &Header{"tenant", "a:b"}}, []int64{first.ID}},
		"died after":      {DeadLetterFilter{DiedAfter: second.DeadAt}, []int64{third.ID, second.ID}},
		"died before":     {DeadLetterFilter{DiedBefore: second.DeadAt.In(time.FixedZone("", 3600))}, []int64{first.ID}},
		"replayed":        {DeadLetterFilter{ReplayCount: new(1)}, nil},
		"never replayed":  {DeadLetterFilter{ReplayCount: new(0), Reason: "sku"}, []int64{third.ID}},
		"all of it holds": {DeadLetterFilter{Categories: []Category{External}, Reason: "sku"}, nil},
	} {
		var got []int64
		for _, letter := range collect(t, b.DeadLetters(ctx, b.queue, c.filter)) {
			got = append(got, letter.Envelope.MessageID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	letter, err := b.DeadLetter(ctx, b.queue, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	e := letter.Envelope
	if e.FailureReason != first.LastError || e.FailureCategory != External || e.StackTrace != "one\ntwo" ||
		e.Queue != b.queue || e.ConsumerInstance != "test" || e.ConsumerVersion != "1.0" ||
		!bytes.Equal(letter.Body, []byte{0xff}) || letter.Headers[0] != (Header{"tenant", "a:b"}) ||
		len(letter.Attempts) != 1 || letter.Attempts[0].Outcome != "failed" ||
		letter.Attempts[0].Failure.StackTrace != "one\ntwo" {
		t.Errorf("the letter is %+v", letter)
	}
	groups, err := b.Groups(ctx, b.queue, 10)
	if err != nil || len(groups) != 2 || groups[0].Count != 2 || groups[0].Fingerprint != letter.Fingerprint ||
		groups[0].Sample.ID != second.ID || !slices.Contains(groups[0].ConsumerVersions, "2.0") {
		t.Errorf("the groups are %+v: %v", groups, err)
	}
}

func TestReplayAndDiscard(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	id := b.bury(text("x"), FailureReport{Error: "no"}).ID
	replayed, err := b.Replay(ctx, b.queue, id)
	if err != nil || replayed.Status != Pending || replayed.ReplayCount != 1 || replayed.LastFailure != nil {
		t.Fatalf("%+v, %v", replayed, err)
	}
	for name, err := range map[string]error{
		"replay":  third(b.Replay(ctx, b.queue, id)),
		"discard": third(b.Discard(ctx, b.queue, id)),
	} {
		if !errors.Is(err, ErrNotDead) {
			t.Errorf("%s a living message: %v", name, err)
		}
	}
	if _, err := b.DeadLetter(ctx, b.queue, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("a living message as a dead letter: %v", err)
	}
	if _, err := b.Fail(ctx, b.take(ClaimOptions{}).Lease(), FailureReport{Permanent: true}); err != nil {
		t.Fatal(err)
	}
	letter, err := b.DeadLetter(ctx, b.queue, id)
	if err != nil || len(letter.Replays) != 1 || letter.Replays[0].Source != "api" {
		t.Errorf("%+v, %v", letter, err)
	}
	if gone, err := b.Discard(ctx, b.queue, id); err != nil || string(gone.Payload) != "x" {
		t.Errorf("%+v, %v", gone, err)
	}
	if _, err := b.Get(ctx, b.queue, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("after a discard: %v", err)
	}
}

func TestPurgeGoesOnUntilAllIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 3 {
		b.put(text("x"))
	}
	b.take(ClaimOptions{})
	got, err := b.Purge(t.Context(), b.queue, Pending, time.Time{})
	if err != nil || got.Removed != 2 || !got.Complete || got.Scope != Pending || got.Before.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if depth := b.depth(); depth.Pending != 0 || depth.Processing != 1 {
		t.Errorf("%+v is left", depth)
	}
	if _, err := b.Purge(t.Context(), b.queue, Processing, time.Time{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("what is being processed: %v", err)
	}

	var waits []time.Duration
	page := func(removed, complete string) string {
		return `{"scope": "dead", "before": "2026-01-31T08:00:00Z", "removed": ` + removed + `, "complete": ` + complete + `}`
	}
	c, s := scripted(t, &waits, answers(200, page("5", "false")), answers(200, page("2", "true")))
	total, err := c.Purge(t.Context(), "q", Dead, time.Time{})
	if err != nil || total.Removed != 7 || !total.Complete {
		t.Errorf("%+v, %v", total, err)
	}
	want := []string{`{"scope":"dead"}` + "\n", `{"scope":"dead","before":"2026-01-31T08:00:00Z"}` + "\n"}
	if !slices.Equal(s.bodies, want) {
		t.Errorf("sent %q", s.bodies)
	}
	c, _ = scripted(t, &waits, answers(200, page("5", "false")), answers(403, ""))
	if total, err := c.Purge(t.Context(), "q", Dead, time.Time{}); !errors.Is(err, ErrForbidden) || total.Removed != 5 {
		t.Errorf("%+v, %v", total, err)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.declare(t, map[string]any{"queue": b.queue, "max_length": 9, "max_retries": 4, "paused": true})
	b.put(text("x"))
	queue, err := b.Queue(t.Context(), b.queue)
	if err != nil || !queue.Declared || queue.DeclaredBy.Name != "declared" || *queue.Settings.MaxLength != 9 ||
		queue.Settings.MaxRetries != 4 || queue.Settings.State != "Paused" || queue.Settings.MessageTTLSeconds != nil ||
		queue.Depth.Pending != 1 || queue.OldestReadyAgeSeconds == nil || queue.OldestDeadAgeSeconds != nil {
		t.Errorf("%+v, %v", queue, err)
	}
	names := 0
	for _, other := range collect(t, b.Queues(t.Context())) {
		if other.Name == b.queue {
			names++
		}
	}
	if names != 1 {
		t.Errorf("the queue is listed %d times", names)
	}
	if _, err := b.Queue(t.Context(), "unknown"); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown queue: %v", err)
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAnswersCanBeWrittenAndRead: what is read of the API can be written as JSON, and read again.
func TestAnswersCanBeWrittenAndRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dead := b.bury(NewMessage{Payload: allBytes(), GroupKey: "g"}, FailureReport{Error: "<no>"})
	letter, err := b.DeadLetter(t.Context(), b.queue, dead.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, out any }{{dead, new(Message)}, {letter, new(DeadLetter)}} {
		raw, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, c.out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.in, c.out); diff != "" {
			t.Error(diff)
		}
	}
	if raw, err := json.Marshal(*dead); err != nil || !bytes.Contains(raw, []byte(`"payload_encoding":"base64"`)) {
		t.Errorf("a message that is no pointer: %s, %v", raw, err)
	}
}
