package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// inGroup are messages of one group key.
func inGroup(key string, n int) []store.NewMessage {
	messages := make([]store.NewMessage, n)
	for i := range messages {
		messages[i] = store.NewMessage{Payload: fmt.Appendf(nil, "%s %d", key, i), GroupKey: key}
	}
	return messages
}

func ids(messages []message.Message) []int64 {
	found := make([]int64, len(messages))
	for i, m := range messages {
		found[i] = m.ID
	}
	return found
}

func wantIDs(t TB, got []message.Message, want ...int64) {
	t.Helper()
	if !slices.Equal(ids(got), want) {
		t.Fatalf("got messages %v, want %v", ids(got), want)
	}
}

var orderTests = map[string]func(*testing.T, Fixture){
	"HighestPriorityFirst": func(t *testing.T, f Fixture) {
		plain := f.enqueueN(t, 2)
		low := f.enqueue(t, store.NewMessage{Payload: []byte("low"), Priority: 1})[0]
		high := f.enqueue(t, store.NewMessage{Payload: []byte("high"), Priority: message.MaxPriority})[0]
		later := f.enqueue(t, store.NewMessage{Payload: []byte("later"), Priority: message.MaxPriority})[0]
		if high.Priority != message.MaxPriority || plain[0].Priority != 0 {
			t.Fatalf("accepted with priorities %d and %d", high.Priority, plain[0].Priority)
		}
		wantIDs(t, f.claim(t, 1), high.ID)
		got := f.claim(t, 3)
		wantIDs(t, got, later.ID, low.ID, plain[0].ID)
		if got[0].Priority != message.MaxPriority || got[2].Priority != 0 {
			t.Fatalf("claimed with priorities %d and %d", got[0].Priority, got[2].Priority)
		}
		wantIDs(t, f.claim(t, 3), plain[1].ID)
	},
	"PriorityWaitsForItsDelay": func(t *testing.T, f Fixture) {
		high := f.enqueue(t, store.NewMessage{Payload: []byte("high"), Priority: 3, Delay: time.Hour})[0]
		plain := f.enqueueN(t, 1)[0]
		wantIDs(t, f.claim(t, 2), plain.ID)
		f.Elapse(t, 2*time.Hour)
		wantIDs(t, f.claim(t, 2), high.ID)
	},
	"PriorityOutlivesFailureAndReplay": func(t *testing.T, f Fixture) {
		high := f.enqueue(t, store.NewMessage{Payload: []byte("high"), Priority: 2})[0]
		f.failOne(t, f.claimOne(t), message.Report{Permanent: true})
		plain := f.enqueueN(t, 1)[0]
		if _, err := f.Replay(t.Context(), queue, high.ID); err != nil {
			t.Fatalf("replay: %v", err)
		}
		wantIDs(t, f.claim(t, 2), high.ID, plain.ID)
	},
	"PriorityIsNotHeldBackByOlderSegments": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 1)
		f.Maintain(t)
		f.enqueueN(t, 2)
		high := f.enqueue(t, store.NewMessage{Payload: []byte("high"), Priority: 1})[0]
		wantIDs(t, f.claim(t, 1), high.ID)
	},
	"GroupGoesOneByOne": func(t *testing.T, f Fixture) {
		a := f.enqueue(t, inGroup("a", 3)...)
		b := f.enqueue(t, inGroup("b", 1)...)
		first := f.claim(t, 10)
		wantIDs(t, first, a[0].ID, b[0].ID)
		if first[0].GroupKey != "a" {
			t.Fatalf("claimed with group key %q", first[0].GroupKey)
		}
		wantIDs(t, f.claim(t, 10))
		f.succeed(t, leases(first)...)
		wantIDs(t, f.claim(t, 10), a[1].ID)
	},
	"FailingFirstHoldsItsGroupUntilItDies": func(t *testing.T, f Fixture) {
		a := f.enqueue(t, inGroup("a", 2)...)
		for range 3 {
			f.Elapse(t, time.Minute)
			held := f.claim(t, 10)
			wantIDs(t, held, a[0].ID)
			f.failOne(t, held[0], message.Report{Reason: "no"})
		}
		wantStatus(t, f.get(t, a[0].ID), message.Dead)
		wantIDs(t, f.claim(t, 10), a[1].ID)
	},
	"ReleaseAndExpiryKeepTheOrder": func(t *testing.T, f Fixture) {
		a := f.enqueue(t, inGroup("a", 2)...)
		if _, err := f.Release(t.Context(), queue, lease(f.claimOne(t)), 0); err != nil {
			t.Fatalf("release: %v", err)
		}
		wantIDs(t, f.claim(t, 10), a[0].ID)
		f.Elapse(t, time.Hour)
		if n := f.expire(t); n != 1 {
			t.Fatalf("%d leases expired", n)
		}
		f.Elapse(t, time.Hour)
		wantIDs(t, f.claim(t, 10), a[0].ID)
	},
	"ReplayedGoesBehindTheOneAtWork": func(t *testing.T, f Fixture) {
		a := f.enqueue(t, inGroup("a", 3)...)
		f.failOne(t, f.claimOne(t), message.Report{Permanent: true})
		second := f.claimOne(t)
		if _, err := f.Replay(t.Context(), queue, a[0].ID); err != nil {
			t.Fatalf("replay: %v", err)
		}
		wantIDs(t, f.claim(t, 10))
		f.succeed(t, lease(second))
		wantIDs(t, f.claim(t, 10), a[0].ID)
	},
	"DelayedFirstHoldsItsGroup": func(t *testing.T, f Fixture) {
		first := f.enqueue(t, store.NewMessage{Payload: []byte("1"), GroupKey: "a", Delay: time.Minute})[0]
		f.enqueue(t, inGroup("a", 1)...)
		wantIDs(t, f.claim(t, 10))
		f.Elapse(t, time.Hour)
		wantIDs(t, f.claim(t, 10), first.ID)
	},
	"GroupsOfOtherQueuesAreOthers": func(t *testing.T, f Fixture) {
		f.enqueue(t, inGroup("a", 1)...)
		if _, err := f.Enqueue(t.Context(), "other", inGroup("a", 1)); err != nil {
			t.Fatalf("enqueue: %v", err)
		}
		f.claimOne(t)
		if got, err := f.Claim(t.Context(), "other", store.ClaimParams{Max: 1}); err != nil || len(got) != 1 {
			t.Fatalf("claimed %d, %v", len(got), err)
		}
	},
	"ExpiredFirstLetsItsGroupGo": func(t *testing.T, f Fixture) {
		first := f.enqueue(t, store.NewMessage{Payload: []byte("1"), GroupKey: "a", TTL: time.Minute})[0]
		blocked := f.enqueue(t, store.NewMessage{Payload: []byte("2"), GroupKey: "a", TTL: time.Minute})[0]
		last := f.enqueue(t, inGroup("a", 1)...)[0]
		f.Elapse(t, time.Hour)
		if n, err := f.ExpireMessages(t.Context(), 100); err != nil || n != 2 {
			t.Fatalf("%d messages expired, %v", n, err)
		}
		wantStatus(t, f.get(t, first.ID), message.Dead)
		wantStatus(t, f.get(t, blocked.ID), message.Dead)
		wantIDs(t, f.claim(t, 10), last.ID)
	},
	"GroupsUnderContention": groupsUnderContention,
}

// groupRace is what producers and unreliable workers who share groups have done.
type groupRace struct {
	Fixture

	mu sync.Mutex
	// last is the message of each group that was handed out last.
	last     map[string]int64
	finished int
}

// groupsUnderContention: no two messages of a group are at work at one time, and each group is handled in order.
func groupsUnderContention(t *testing.T, f Fixture) {
	const groups, each, workers = 7, 40, 8
	settings := message.DefaultSettings()
	settings.Backoff = message.Backoff{Initial: time.Millisecond, FactorPercent: 100, Max: time.Millisecond}
	f.Declare(t, queue, settings)
	race := &groupRace{Fixture: f, last: map[string]int64{}}
	var g errgroup.Group
	for key := range groups {
		g.Go(func() error {
			for _, m := range inGroup(strconv.Itoa(key), each) {
				if _, err := f.Enqueue(t.Context(), queue, []store.NewMessage{m, {Payload: []byte("x")}}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for worker := range workers {
		g.Go(func() error { return race.work(t, worker, 2*groups*each) })
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("%v", err)
	}
}

// work handles messages until so many are finished by all workers together.
func (r *groupRace) work(t *testing.T, worker, messages int) error {
	t.Helper()
	for turn := 0; r.count(0) < messages; turn++ {
		held, err := r.Claim(t.Context(), queue, store.ClaimParams{Max: 1 + worker%3})
		if err != nil {
			return err
		}
		for i, m := range held {
			r.begin(t, m)
			finished, err := r.handle(t, m, (turn+i)%5) // An error is somebody else's hold on the message.
			if err != nil {
				return err
			}
			if finished {
				r.count(1)
			}
		}
	}
	return nil
}

func (r *groupRace) count(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished += n
	return r.finished
}

// begin checks that a message may be handed out now that it is.
func (r *groupRace) begin(t *testing.T, m message.Message) {
	t.Helper()
	r.mu.Lock()
	before := r.last[m.GroupKey]
	r.last[m.GroupKey] = m.ID
	r.mu.Unlock()
	if m.GroupKey == "" || before == 0 || before == m.ID {
		return
	}
	if m.ID < before {
		t.Errorf("group %s: %d is handed out after %d", m.GroupKey, m.ID, before)
	}
	if other := r.get(t, before); other.Status == message.Processing || other.Status == message.Pending {
		t.Errorf("group %s: %d is handed out while %d is %s", m.GroupKey, m.ID, before, other.Status)
	}
}

// handle settles a message in one of several ways and reports whether it is finished.
func (f Fixture) handle(t TB, m message.Message, way int) (finished bool, err error) {
	switch way {
	case 0:
		settled, err := f.Fail(t.Context(), queue, []store.FailedLease{{LeaseRef: lease(m)}})
		if err == nil {
			finished, err = settled[0].Message.Status == message.Dead, settled[0].Err
		}
		return finished, err
	case 1:
		_, err := f.Release(t.Context(), queue, lease(m), 0)
		return false, err
	default:
		settled, err := f.Succeed(t.Context(), queue, []store.LeaseRef{lease(m)})
		if err == nil {
			err = settled[0].Err
		}
		return err == nil, err
	}
}
