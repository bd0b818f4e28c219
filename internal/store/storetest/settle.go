package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

const noToken = "00000000-0000-4000-8000-000000000000"

var settleTests = map[string]func(*testing.T, Fixture){
	"SucceedEndsIt": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		m := f.claimOne(t)
		settled := f.succeed(t, lease(m))[0]
		wantErr(t, settled.Err, nil)
		wantStatus(t, settled.Message, message.Succeeded)
		wantErr(t, f.succeed(t, lease(m))[0].Err, store.ErrNotProcessing)
		wantErr(t, f.fail(t, store.FailedLease{LeaseRef: lease(m)})[0].Err, store.ErrNotProcessing)
	},
	"BacksOffAndDies": func(t *testing.T, f Fixture) {
		f.enqueue(t, store.NewMessage{Payload: []byte("x"), MaxRetries: 5})
		for n, wait := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
			m := f.failOne(t, f.claimOne(t), message.Report{Reason: "boom"})
			wantStatus(t, m, message.Pending)
			if m.RetryCount != n+1 || m.RetryAfter.Sub(m.UpdatedAt) != wait {
				t.Fatalf("failure %d: retry count %d after %s, want %s", n+1, m.RetryCount, m.RetryAfter.Sub(m.UpdatedAt), wait)
			}
			if claimed := f.claim(t, 1); len(claimed) != 0 {
				t.Fatalf("claimed during the backoff")
			}
			f.Elapse(t, wait)
		}
		m := f.failOne(t, f.claimOne(t), message.Report{Reason: "boom"})
		wantStatus(t, m, message.Dead)
		if m.RetryCount != 5 || m.RetryAfter != nil || m.DeadAt == nil || m.LastFailure.Reason != "boom" {
			t.Fatalf("dead letter is %+v", m)
		}
	},
	"PermanentFailureDiesAtOnce": func(t *testing.T, f Fixture) {
		m := f.kill(t)
		wantStatus(t, m, message.Dead)
		if m.RetryCount != 1 || m.LastFailure.Category != message.Unknown {
			t.Fatalf("dead letter is %+v", m)
		}
	},
	"AnyReportIsRecorded": func(t *testing.T, f Fixture) {
		hostile := strings.Repeat("\x00\xff\u202e%s'\"\\", 100_000)
		f.enqueueN(t, 1)
		wait := 400 * 24 * time.Hour
		m := f.failOne(t, f.claimOne(t), message.Report{
			Reason: hostile, Category: hostile, ErrorClass: hostile, StackTrace: strings.Repeat(hostile+"\n", 30),
			RetryAfter: &wait, Consumer: message.Consumer{Instance: hostile, Version: hostile},
		})
		wantStatus(t, m, message.Pending)
		if len(m.LastFailure.Reason) > message.MaxReasonBytes || m.RetryAfter.Sub(m.UpdatedAt) != message.MaxDelay {
			t.Fatalf("recorded %d bytes, retry at %s", len(m.LastFailure.Reason), m.RetryAfter)
		}
	},
	"StaleTokenChangesNothing": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		m := f.claimOne(t)
		for _, token := range []string{noToken, "not a uuid", "'; --"} {
			ref := store.LeaseRef{ID: m.ID, Token: token}
			wantErr(t, f.succeed(t, ref)[0].Err, store.ErrStaleLease)
			wantErr(t, f.fail(t, store.FailedLease{LeaseRef: ref})[0].Err, store.ErrStaleLease)
			_, err := f.Extend(t.Context(), queue, ref, time.Hour)
			wantErr(t, err, store.ErrStaleLease)
			_, err = f.Release(t.Context(), queue, ref, 0)
			wantErr(t, err, store.ErrStaleLease)
		}
		if now := f.get(t, m.ID); now.Status != message.Processing || !now.UpdatedAt.Equal(m.UpdatedAt) {
			t.Fatalf("message changed: %+v", now)
		}
		wantErr(t, f.succeed(t, lease(m))[0].Err, nil)
	},
	"NoTokenActsOnTheCurrentLease": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		wantErr(t, f.succeed(t, store.LeaseRef{ID: f.claimOne(t).ID})[0].Err, nil)
	},
	"BatchSettlesEachOnItsOwn": func(t *testing.T, f Fixture) {
		held := f.enqueueN(t, 3)
		held = f.claim(t, len(held))
		stale := store.LeaseRef{ID: held[1].ID, Token: noToken}
		settled := f.succeed(t, lease(held[0]), stale, store.LeaseRef{ID: 1 << 60}, lease(held[0]), lease(held[2]))
		for i, want := range []error{nil, store.ErrStaleLease, store.ErrNotFound, store.ErrNotProcessing, nil} {
			wantErr(t, settled[i].Err, want)
		}
	},
	"BatchNamesOneMessageTwice": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 2)
		done, failed := f.claimOne(t), f.claimOne(t)
		stale := store.LeaseRef{ID: done.ID, Token: noToken}
		settled := f.succeed(t, stale, lease(done), lease(done), store.LeaseRef{ID: done.ID}, stale)
		for i, want := range []error{
			store.ErrStaleLease, nil, store.ErrNotProcessing, store.ErrNotProcessing, store.ErrNotProcessing,
		} {
			wantErr(t, settled[i].Err, want)
		}
		wantStatus(t, settled[1].Message, message.Succeeded)
		report := func(token, reason string) store.FailedLease {
			return store.FailedLease{
				LeaseRef: store.LeaseRef{ID: failed.ID, Token: token}, Report: message.Report{Reason: reason},
			}
		}
		settled = f.fail(t, report(noToken, "stale"), report(failed.Lease.Token, "true"), report("", "late"))
		for i, want := range []error{store.ErrStaleLease, nil, store.ErrNotProcessing} {
			wantErr(t, settled[i].Err, want)
		}
		if m := f.get(t, failed.ID); m.RetryCount != 1 || m.LastFailure.Reason != "true" {
			t.Fatalf("failed %d times, last %+v", m.RetryCount, m.LastFailure)
		}
	},
	"ExtendMovesTheEnd": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		m := f.claimOne(t)
		extended, err := f.Extend(t.Context(), queue, lease(m), time.Hour)
		wantErr(t, err, nil)
		got := extended.Lease.ExpiresAt.Sub(extended.UpdatedAt)
		if got != time.Hour || extended.Lease.Token != m.Lease.Token {
			t.Fatalf("extended to %s", got)
		}
		f.Elapse(t, 59*time.Minute)
		if n := f.expire(t); n != 0 {
			t.Fatalf("an extended lease expired early")
		}
	},
	"ReleaseCostsNothingAndKeepsItsPlace": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 2)
		first := f.claimOne(t)
		released, err := f.Release(t.Context(), queue, lease(first), 0)
		wantErr(t, err, nil)
		if released.RetryCount != 0 || released.DeliveryCount != 0 || released.Lease != nil {
			t.Fatalf("released %+v", released)
		}
		if again := f.claimOne(t); again.ID != first.ID || again.Lease.Token == first.Lease.Token {
			t.Fatalf("claimed %+v", again)
		}
		wantErr(t, f.succeed(t, lease(first))[0].Err, store.ErrStaleLease)
	},
	"ReleaseWithDelayHoldsBack": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		_, err := f.Release(t.Context(), queue, lease(f.claimOne(t)), time.Minute)
		wantErr(t, err, nil)
		if claimed := f.claim(t, 1); len(claimed) != 0 {
			t.Fatalf("claimed before the delay")
		}
		f.Elapse(t, time.Minute)
		f.claimOne(t)
	},
	"ManyReleasesAreNotPoison": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		for range 3 * message.DefaultSettings().MaxDeliveries {
			_, err := f.Release(t.Context(), queue, lease(f.claimOne(t)), 0)
			wantErr(t, err, nil)
		}
		wantStatus(t, f.failOne(t, f.claimOne(t), message.Report{}), message.Pending)
	},
	"FingerprintIsOfTheCause": func(t *testing.T, f Fixture) {
		prints := map[string]bool{}
		for i := range 5 {
			f.enqueueN(t, 1)
			m := f.failOne(t, f.claimOne(t), message.Report{Reason: fmt.Sprintf("order %d not found", i), Permanent: true})
			prints[m.LastFailure.Fingerprint] = true
		}
		if len(prints) != 1 {
			t.Fatalf("one cause has %d fingerprints", len(prints))
		}
	},
}
