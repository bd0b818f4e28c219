package store_test

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// leaseMany returns four leases among so many that a batch looks its messages up one by one, in the order given unless
// told otherwise.
func (d database) leaseMany(t *testing.T) []store.LeaseRef {
	t.Helper()
	const many = 2000
	d.mustEnqueue(t, many)
	held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: many, VisibilityTimeout: time.Hour})
	if err != nil || len(held) != many {
		t.Fatalf("claimed %d: %v", len(held), err)
	}
	d.exec(t, "ANALYZE")
	leases := make([]store.LeaseRef, 4)
	for i := range leases {
		leases[i] = store.LeaseRef{ID: held[i].ID, Token: held[i].Lease.Token}
	}
	return leases
}

// Batches that name the same messages in opposite orders wait for each other, but not both at once. Each is held up at
// its middle message by a session that has only that one, so that a batch that locks in the order given has its first
// message by then, and wants the other's.
func TestOppositeBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	settle := map[string]func(t *testing.T, d database, leases []store.LeaseRef) error{
		"succeed": func(t *testing.T, d database, leases []store.LeaseRef) error {
			t.Helper()
			_, err := d.Succeed(t.Context(), orders, leases)
			return err
		},
		"fail": func(t *testing.T, d database, leases []store.LeaseRef) error {
			t.Helper()
			failures := make([]store.FailedLease, len(leases))
			for i, lease := range leases {
				failures[i] = store.FailedLease{LeaseRef: lease, Report: message.Report{Permanent: true}}
			}
			_, err := d.Fail(t.Context(), orders, failures)
			return err
		},
	}
	for _, ways := range [][2]string{{"succeed", "succeed"}, {"fail", "fail"}, {"succeed", "fail"}, {"fail", "succeed"}} {
		t.Run(ways[0]+" and "+ways[1], func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			leases := d.leaseMany(t)
			slow, resume := d.pausing(t)
			var calls []<-chan error
			for _, middle := range leases[1:3] {
				calls = append(calls, call(func() error {
					_, err := slow.Extend(t.Context(), orders, middle, time.Hour)
					return err
				}))
			}
			d.awaitStop(t, 2, calls...)
			up := []store.LeaseRef{leases[0], leases[1], leases[3]}
			down := []store.LeaseRef{leases[3], leases[2], leases[0]}
			for i, batch := range [][]store.LeaseRef{up, down} {
				calls = append(calls, call(func() error { return settle[ways[i]](t, d, batch) }))
			}
			d.awaitStop(t, 4, calls...)
			resume()
			wantDone(t, calls...)
			d.check(t)
		})
	}
}
