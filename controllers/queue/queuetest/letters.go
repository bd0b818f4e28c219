package queuetest

import (
	"testing"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// Enqueue sends n messages.
func (c *Cluster) Enqueue(t testing.TB, queue string, n int) {
	t.Helper()
	messages := make([]store.NewMessage, n)
	for i := range messages {
		messages[i] = store.NewMessage{Payload: []byte("{}")}
	}
	if _, err := c.Store.Enqueue(t.Context(), queue, messages); err != nil {
		t.Fatal(err)
	}
}

// Claim claims n messages.
func (c *Cluster) Claim(t testing.TB, queue string, n int) []message.Message {
	t.Helper()
	claimed, err := c.Store.Claim(t.Context(), queue, store.ClaimParams{Max: n})
	if err != nil {
		t.Fatal(err)
	}
	if len(claimed) != n {
		t.Fatalf("claimed %d of %d messages", len(claimed), n)
	}
	return claimed
}

// Kill claims n messages and fails them for good.
func (c *Cluster) Kill(t testing.TB, queue string, n int, category string) {
	t.Helper()
	failures := make([]store.FailedLease, 0, n)
	for _, m := range c.Claim(t, queue, n) {
		failures = append(failures, store.FailedLease{
			LeaseRef: store.LeaseRef{ID: m.ID, Token: m.Lease.Token},
			Report:   message.Report{Reason: "broken", Category: category, Permanent: true},
		})
	}
	settled, err := c.Store.Fail(t.Context(), queue, failures)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settled {
		if s.Err != nil {
			t.Fatal(s.Err)
		}
	}
}

// Finish claims n messages and finishes them.
func (c *Cluster) Finish(t testing.TB, queue string, n int) {
	t.Helper()
	refs := make([]store.LeaseRef, 0, n)
	for _, m := range c.Claim(t, queue, n) {
		refs = append(refs, store.LeaseRef{ID: m.ID, Token: m.Lease.Token})
	}
	settled, err := c.Store.Succeed(t.Context(), queue, refs)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settled {
		if s.Err != nil {
			t.Fatal(s.Err)
		}
	}
}

// Bury makes n dead letters, at most 1,000.
func (c *Cluster) Bury(t testing.TB, queue string, n int, category string) {
	t.Helper()
	c.Enqueue(t, queue, n)
	c.Kill(t, queue, n, category)
}

// Depth is the exact depth of a queue.
func (c *Cluster) Depth(t testing.TB, queue string) store.Depth {
	t.Helper()
	info, err := c.Store.Queue(t.Context(), queue)
	if err != nil {
		t.Fatal(err)
	}
	return info.Depth
}
