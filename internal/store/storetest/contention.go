package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

var contentionTests = map[string]func(*testing.T, Fixture){
	"NoDoubleHold": func(t *testing.T, f Fixture) {
		const messages, workers = 10_000, 32
		for range messages / 1000 {
			f.enqueueN(t, 1000)
		}
		var (
			holders sync.Map
			claimed atomic.Int64
			group   errgroup.Group
		)
		for worker := range workers {
			group.Go(func() error {
				for {
					held, err := f.Claim(t.Context(), queue, store.ClaimParams{Max: 1 + worker%3, VisibilityTimeout: time.Hour})
					if err != nil || len(held) == 0 {
						return err
					}
					for _, m := range held {
						if other, twice := holders.LoadOrStore(m.ID, worker); twice {
							t.Errorf("message %d is held by workers %v and %d", m.ID, other, worker)
						}
					}
					claimed.Add(int64(len(held)))
				}
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatalf("claim: %v", err)
		}
		if claimed.Load() != messages {
			t.Fatalf("claimed %d of %d", claimed.Load(), messages)
		}
	},
	"OneVerdictPerLease": func(t *testing.T, f Fixture) {
		const rounds, rivals = 50, 6
		for range rounds {
			f.enqueueN(t, 1)
			ref := lease(f.claimOne(t))
			var won atomic.Int64
			var group errgroup.Group
			for rival := range rivals {
				group.Go(func() error {
					settled, err := f.settleAs(t, rival, ref)
					if err == nil && settled == nil {
						won.Add(1)
					}
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatalf("settle: %v", err)
			}
			if won.Load() != 1 {
				t.Fatalf("%d calls settled one lease", won.Load())
			}
		}
	},
	"RacesAtTheMomentOfExpiry": func(t *testing.T, f Fixture) {
		settings := message.DefaultSettings()
		settings.MaxDeliveries, settings.MaxRetries = 1, 1
		f.Declare(t, queue, settings)
		for round := range 60 {
			f.enqueueN(t, 1)
			f.raceExpiry(t, time.Duration(round%9-4)*200*time.Microsecond)
		}
	},
}

// settleAs tries to settle in one of three ways, and returns why it was refused.
func (f Fixture) settleAs(t *testing.T, way int, ref store.LeaseRef) (refused, err error) {
	t.Helper()
	switch way % 3 {
	case 0:
		settled, err := f.Succeed(t.Context(), queue, []store.LeaseRef{ref})
		if err != nil {
			return nil, err
		}
		return settled[0].Err, nil
	case 1:
		report := message.Report{Permanent: true}
		settled, err := f.Fail(t.Context(), queue, []store.FailedLease{{LeaseRef: ref, Report: report}})
		if err != nil {
			return nil, err
		}
		return settled[0].Err, nil
	default:
		// With a delay, so that the next round's claim cannot meet it.
		_, refused := f.Release(t.Context(), queue, ref, time.Hour)
		return refused, nil
	}
}

// raceExpiry lets a success, sent that much off the moment the lease ends, meet the sweep. Whoever wins, the message
// has one end, and the success was answered accordingly.
func (f Fixture) raceExpiry(t *testing.T, off time.Duration) {
	t.Helper()
	held, err := f.Claim(t.Context(), queue, store.ClaimParams{Max: 1, VisibilityTimeout: 3 * time.Millisecond})
	if err != nil || len(held) != 1 {
		t.Fatalf("claimed %d: %v", len(held), err)
	}
	var (
		group   errgroup.Group
		refused error
	)
	group.Go(func() error {
		for {
			expired, err := f.ExpireLeases(t.Context(), 10)
			if err != nil || expired > 0 {
				return err
			}
			m, err := f.Get(t.Context(), queue, held[0].ID)
			if err != nil || m.Status != message.Processing {
				return err
			}
		}
	})
	group.Go(func() error {
		<-time.After(time.Until(held[0].Lease.ExpiresAt) + off)
		settled, err := f.Succeed(t.Context(), queue, leases(held))
		if err == nil {
			refused = settled[0].Err
		}
		return err
	})
	if err := group.Wait(); err != nil {
		t.Fatalf("race: %v", err)
	}
	want := message.Succeeded
	if refused != nil {
		want = message.Dead
	}
	wantStatus(t, f.get(t, held[0].ID), want)
}
