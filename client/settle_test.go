package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestLifeOfAMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	id := b.put(text("x")).ID

	m := b.take(ClaimOptions{VisibilityTimeout: 30 * time.Second})
	if m.ID != id || m.LeaseToken == "" || m.LeaseExpiresAt.Sub(m.UpdatedAt) != 30*time.Second || m.DeliveryCount != 1 {
		t.Fatalf("claimed %+v", m)
	}
	extended, err := b.Extend(ctx, m.Lease(), 89*time.Second+1)
	if err != nil || extended.LeaseExpiresAt.Sub(m.UpdatedAt) < 90*time.Second || extended.LeaseToken != "" {
		t.Fatalf("extended %+v: %v", extended, err)
	}
	released, err := b.Release(ctx, m.Lease(), 0)
	if err != nil || released.Status != Pending || released.RetryCount != 0 || released.DeliveryCount != 0 {
		t.Fatalf("released %+v: %v", released, err)
	}
	failed, err := b.Fail(ctx, b.take(ClaimOptions{}).Lease(), FailureReport{
		Error: "card\x00 declined\xff", Category: External, ErrorClass: "CardError", StackTrace: "a\nb",
		RetryAfter: new(500 * time.Microsecond), Consumer: &Consumer{Instance: "w", Version: "2"},
	})
	if err != nil || failed.RetryCount != 1 || failed.LastError != `card\x00 declined\xff` {
		t.Fatalf("failed %+v: %v", failed, err)
	}
	if got, want := *failed.LastFailure, (Failure{
		Reason: failed.LastError, Category: External, Fingerprint: failed.LastFailure.Fingerprint, ErrorClass: "CardError",
		Consumer: Consumer{"w", "2"}, At: failed.UpdatedAt,
	}); got != want || len(got.Fingerprint) != 16 {
		t.Errorf("the failure is %+v, want %+v", got, want)
	}
	done, err := b.Succeed(ctx, b.take(ClaimOptions{}).Lease())
	if err != nil || done.Status != Succeeded {
		t.Fatalf("succeeded %+v: %v", done, err)
	}
	if got := b.get(id); got.Status != Succeeded || string(got.Payload) != "x" {
		t.Errorf("in the end %+v", got)
	}
}

func TestEmptyClaims(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got, err := b.Claim(t.Context(), b.queue, ClaimOptions{}); err != nil || len(got) != 0 {
		t.Errorf("an unknown queue gave %d messages: %v", len(got), err)
	}
	tooMuch := ClaimOptions{Max: 1001, Wait: 21 * time.Second}
	if _, err := b.Claim(t.Context(), b.queue, tooMuch); !errors.Is(err, ErrInvalid) {
		t.Errorf("the error is %v", err)
	}
}

func TestLeasesFence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	b.put(text("x"))
	old := b.take(ClaimOptions{}).Lease()
	if _, err := b.Release(ctx, old, 0); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(Lease) error{
		"succeed": func(l Lease) error { _, err := b.Succeed(ctx, l); return err },
		"fail":    func(l Lease) error { _, err := b.Fail(ctx, l, FailureReport{}); return err },
		"extend":  func(l Lease) error { _, err := b.Extend(ctx, l, time.Second); return err },
		"release": func(l Lease) error { _, err := b.Release(ctx, l, 0); return err },
	}
	for name, call := range calls {
		if err := call(old); !errors.Is(err, ErrNotProcessing) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s a pending message: %v", name, err)
		}
	}
	current := b.take(ClaimOptions{})
	for name, call := range calls {
		if err := call(old); !errors.Is(err, ErrStaleLease) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s with an old token: %v", name, err)
		}
	}
	if got := b.get(current.ID); got.Status != Processing || got.RetryCount != 0 {
		t.Errorf("after all that: %+v", got)
	}
	if err := calls["succeed"](Lease{Queue: b.queue, ID: 1 << 60, Token: "t"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such message: %v", err)
	}
	if err := calls["succeed"](Lease{Queue: b.queue, ID: current.ID}); err != nil {
		t.Errorf("without a token: %v", err)
	}
}

func TestBatchesOfOutcomes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	var batch []NewMessage
	for range 4 {
		batch = append(batch, text("x"))
	}
	if _, err := b.EnqueueBatch(ctx, b.queue, batch); err != nil {
		t.Fatal(err)
	}
	got, err := b.Claim(ctx, b.queue, ClaimOptions{Max: 10})
	if err != nil || len(got) != 4 {
		t.Fatalf("claimed %d: %v", len(got), err)
	}
	stale := got[1].Lease()
	stale.Token = "00000000-0000-0000-0000-000000000000"
	results, err := b.SucceedBatch(ctx, b.queue, []Lease{got[0].Lease(), stale})
	if err != nil || len(results) != 2 {
		t.Fatalf("%v, %v", results, err)
	}
	first := results[0]
	if first.Err != nil || first.ID != got[0].ID || first.Message.Status != Succeeded || first.Status != 200 {
		t.Errorf("the first is %+v", first)
	}
	if second := results[1]; !errors.Is(second.Err, ErrStaleLease) || second.Message != nil || second.Status != 409 {
		t.Errorf("the second is %+v", second)
	}
	results, err = b.FailBatch(ctx, b.queue, []FailedLease{
		{got[2].Lease(), FailureReport{Error: "no", Permanent: true}},
		{got[3].Lease(), FailureReport{Error: strings.Repeat("long", 10_000)}},
	})
	if err != nil || results[0].Message.Status != Dead || results[1].Message.Status != Pending {
		t.Fatalf("%v, %v", results, err)
	}
	if reason := results[1].Message.LastError; len(reason) > maxReasonBytes || strings.Count(reason, cutMark) != 1 {
		t.Errorf("%d bytes of a long reason were kept: …%s", len(reason), reason[len(reason)-20:])
	}
	if results, err := b.SucceedBatch(ctx, b.queue, nil); results != nil || err != nil {
		t.Errorf("an empty batch: %v, %v", results, err)
	}
}

// settling are the ways to end a hold whose answer can get lost.
var settling = map[string]func(b *bench, l Lease) error{
	"succeed": func(b *bench, l Lease) error { _, err := b.Succeed(b.t.Context(), l); return err },
	"succeed in a batch": func(b *bench, l Lease) error {
		results, err := b.SucceedBatch(b.t.Context(), l.Queue, []Lease{l})
		return only(results, err)
	},
	"fail": func(b *bench, l Lease) error { _, err := b.Fail(b.t.Context(), l, weird); return err },
	"fail in a batch": func(b *bench, l Lease) error {
		results, err := b.FailBatch(b.t.Context(), l.Queue, []FailedLease{{l, weird}})
		return only(results, err)
	},
}

// weird is a report that the API cleans; the client must recognise it all the same.
var weird = FailureReport{
	Error: "\x00\xff" + strings.Repeat("ü\x1b", 5000), Category: " MINE ", ErrorClass: strings.Repeat("c", 300),
	RetryAfter: new(time.Hour),
}

func only(results []Result, err error) error {
	if err != nil {
		return err
	}
	return results[0].Err
}

// TestLostAnswersAreJudged: the server has done it, the answer is lost, and the repetition meets a lease that is over.
func TestLostAnswersAreJudged(t *testing.T) {
	t.Parallel()
	for name, settle := range settling {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put(text("x"))
			lease := b.take(ClaimOptions{}).Lease()
			action, _, _ := strings.Cut(name, " ")
			b.wire.loseFirst("/"+action, theAnswer)
			if err := settle(b, lease); err != nil {
				t.Errorf("it was done: %v", err)
			}
			if sent := b.wire.count("/" + action); sent != 2 {
				t.Errorf("sent %d times", sent)
			}
			want := 0
			if action == "fail" {
				want = 1
			}
			if got := b.get(lease.ID); got.RetryCount != want {
				t.Errorf("in the end: %+v", got)
			}
		})
	}
}

// TestLostRequestsAreJudged: the request is lost, the lease ends before the repetition, and nothing was done.
func TestLostRequestsAreJudged(t *testing.T) {
	t.Parallel()
	for name, settle := range settling {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put(text("x"))
			lease := b.take(ClaimOptions{VisibilityTimeout: time.Second}).Lease()
			action, _, _ := strings.Cut(name, " ")
			b.wire.loseFirst("/"+action, theRequest)
			other := newBench(t)
			b.pause = func(ctx context.Context, _ time.Duration) error {
				eventually(t, "the lease to end", func() bool {
					m, err := other.Get(ctx, b.queue, lease.ID)
					return err == nil && m.Status == Pending
				})
				return nil
			}
			if err := settle(b, lease); !errors.Is(err, ErrNotProcessing) || errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("it was not done: %v", err)
			}
		})
	}
}

// TestReleaseIsUnsure: whether a release took effect cannot be told afterwards.
func TestReleaseIsUnsure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(text("x"))
	b.wire.loseFirst("/release", theAnswer)
	_, err := b.Release(t.Context(), b.take(ClaimOptions{}).Lease(), time.Hour)
	if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, ErrNotProcessing) {
		t.Errorf("the error is %v", err)
	}
}

func TestWithoutATokenNothingIsRepeated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lease := Lease{Queue: b.queue, ID: b.put(text("x")).ID}
	b.take(ClaimOptions{})
	b.wire.loseFirst("/succeed", theAnswer)
	if _, err := b.Succeed(t.Context(), lease); !errors.Is(err, ErrUnknownOutcome) || b.wire.count("/succeed") != 1 {
		t.Errorf("%d calls: %v", b.wire.count("/succeed"), err)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	report := FailureReport{Error: "no", Category: External, ErrorClass: "E"}
	recorded := func(category Category, class, reason string) *Message {
		return &Message{Status: Pending, LastFailure: &Failure{Category: category, ErrorClass: class, Reason: reason}}
	}
	for name, c := range map[string]struct {
		now              *Message
		success, failure verdict
	}{
		"succeeded":          {&Message{Status: Succeeded}, done, unknown},
		"never failed":       {&Message{Status: Pending}, refused, unknown},
		"processing":         {&Message{Status: Processing}, refused, unknown},
		"as reported":        {recorded(External, "E", "no"), refused, done},
		"another reason":     {recorded(External, "E", "yes"), refused, unknown},
		"another class":      {recorded(External, "F", "no"), refused, unknown},
		"another category":   {recorded(Unknown, "E", "no"), refused, unknown},
		"lease ran out":      {recorded(Timeout, "LeaseExpired", "x"), refused, refused},
		"the last lease did": {recorded(Poison, "MaxDeliveriesExceeded", "x"), refused, refused},
	} {
		if got := judgeSuccess(c.now); got != c.success {
			t.Errorf("%s: the verdict on success is %d", name, got)
		}
		if got := judgeFailure(c.now, &report); got != c.failure {
			t.Errorf("%s: the verdict on failure is %d", name, got)
		}
	}
	empty := FailureReport{}
	if judgeFailure(recorded(Unknown, "", "no error was reported"), &empty) != done {
		t.Error("an empty report is not recognised")
	}
}
