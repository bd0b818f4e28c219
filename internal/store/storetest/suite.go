// Package storetest is the conformance suite of the queue engine: what every implementation of store.Engine must do,
// whatever lies underneath.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// Fixture is an engine on an empty database of its own, and what a test needs beside it.
type Fixture struct {
	store.Engine
	// Elapse makes d pass for everything stored: leases, delays and backoffs are that much closer to their end.
	Elapse func(t TB, d time.Duration)
	// Declare gives a queue its settings.
	Declare func(t TB, queue string, settings message.Settings)
	// Reset removes everything that is stored.
	Reset func(t TB)
	// Maintain does whatever the engine does in the background, beside ending leases, as often as it ever may.
	Maintain func(t TB)
	// Check fails the test unless counters equal rows and every row is whole.
	Check func(t TB)
}

// TB is the part of testing.TB that the suite needs; rapid.T has it too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Run runs the suite. newFixture is called once per test and must be safe for parallel tests.
func Run(t *testing.T, newFixture func(t *testing.T) Fixture) {
	t.Helper()
	RunTests(t, newFixture)
	t.Run("Model", func(t *testing.T) {
		t.Parallel()
		runModel(t, newFixture(t))
	})
}

// RunTests runs the suite without the model.
func RunTests(t *testing.T, newFixture func(t *testing.T) Fixture) {
	t.Helper()
	groups := map[string]map[string]func(*testing.T, Fixture){
		"Enqueue": enqueueTests, "Once": onceTests,
		"Claim": claimTests, "Settle": settleTests, "Expire": expireTests, "Replay": replayTests,
		"List": listTests, "Contention": contentionTests, "Order": orderTests, "Limits": limitTests,
	}
	for group, tests := range groups {
		for name, test := range tests {
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				fixture := newFixture(t)
				test(t, fixture)
				fixture.Check(t)
			})
		}
	}
}

const queue = "orders"

func (f Fixture) enqueue(t TB, messages ...store.NewMessage) []message.Message {
	t.Helper()
	accepted, err := f.Enqueue(t.Context(), queue, messages)
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	return accepted
}

// enqueueN enqueues n messages with payloads 0, 1, ….
func (f Fixture) enqueueN(t TB, n int) []message.Message {
	t.Helper()
	messages := make([]store.NewMessage, n)
	for i := range messages {
		messages[i].Payload = fmt.Append(nil, i)
	}
	return f.enqueue(t, messages...)
}

func (f Fixture) claim(t TB, n int) []message.Message {
	t.Helper()
	claimed, err := f.Claim(t.Context(), queue, store.ClaimParams{Max: n})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return claimed
}

func (f Fixture) claimOne(t TB) message.Message {
	t.Helper()
	claimed := f.claim(t, 1)
	if len(claimed) != 1 {
		t.Fatalf("claimed %d messages, want 1", len(claimed))
	}
	return claimed[0]
}

func (f Fixture) succeed(t TB, leases ...store.LeaseRef) []store.Settled {
	t.Helper()
	settled, err := f.Succeed(t.Context(), queue, leases)
	if err != nil {
		t.Fatalf("succeed: %v", err)
	}
	return settled
}

func (f Fixture) fail(t TB, failures ...store.FailedLease) []store.Settled {
	t.Helper()
	settled, err := f.Fail(t.Context(), queue, failures)
	if err != nil {
		t.Fatalf("fail: %v", err)
	}
	return settled
}

// failOne fails a held message and returns it as it is then.
func (f Fixture) failOne(t TB, m message.Message, report message.Report) message.Message {
	t.Helper()
	settled := f.fail(t, store.FailedLease{LeaseRef: lease(m), Report: report})
	if settled[0].Err != nil {
		t.Fatalf("fail message %d: %v", m.ID, settled[0].Err)
	}
	return settled[0].Message
}

// kill enqueues a message, claims it and fails it for good.
func (f Fixture) kill(t TB) message.Message {
	t.Helper()
	f.enqueueN(t, 1)
	return f.failOne(t, f.claimOne(t), message.Report{Reason: "no such customer", Permanent: true})
}

func (f Fixture) get(t TB, id int64) message.Message {
	t.Helper()
	m, err := f.Get(t.Context(), queue, id)
	if err != nil {
		t.Fatalf("get message %d: %v", id, err)
	}
	return m
}

// expire runs the sweep until nothing is left to expire and returns how many leases it ended.
func (f Fixture) expire(t TB) int {
	t.Helper()
	total := 0
	for {
		n, err := f.ExpireLeases(t.Context(), 100)
		if err != nil {
			t.Fatalf("expire leases: %v", err)
		}
		if total += n; n < 100 {
			return total
		}
	}
}

func lease(m message.Message) store.LeaseRef { return store.LeaseRef{ID: m.ID, Token: m.Lease.Token} }

func leases(messages []message.Message) []store.LeaseRef {
	refs := make([]store.LeaseRef, len(messages))
	for i, m := range messages {
		refs[i] = lease(m)
	}
	return refs
}

func wantErr(t TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error is %v, want %v", got, want)
	}
}

func wantStatus(t TB, m message.Message, want message.Status) {
	t.Helper()
	if m.Status != want {
		t.Fatalf("message %d is %s, want %s", m.ID, m.Status, want)
	}
}
