package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWorkerExtendsLeases: a handler that takes longer than the visibility timeout keeps its message.
func TestWorkerExtendsLeases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := []int64{b.put(text("slow")).ID, b.put(text("waiting")).ID}
	started, finish := make(chan struct{}, 2), make(chan struct{})
	w := b.start(Worker{
		Concurrency: 1, Prefetch: 1, VisibilityTimeout: time.Second,
		Handler: func(ctx context.Context, _ *Message) error {
			started <- struct{}{}
			<-finish
			return ctx.Err()
		},
	})
	<-started
	// Both leases are extended, that of the message that is not started, too.
	eventually(t, "more heartbeats than a lease has", func() bool { return b.wire.count("/extend") > 3*beatsPerLease })
	for _, id := range ids {
		if m := b.get(id); m.Status != Processing || m.RetryCount != 0 {
			t.Errorf("message %d: %+v", id, m)
		}
	}
	close(finish)
	for _, id := range ids {
		if m := b.awaitStatus(id, Succeeded); m.DeliveryCount != 1 {
			t.Errorf("message %d was delivered %d times", id, m.DeliveryCount)
		}
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// TestWorkerStopsWhenTheLeaseIsLost: when another worker may have the message, the handler is told.
func TestWorkerStopsWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(b *bench, m *Message){
		"taken by another": func(b *bench, m *Message) {
			// An operator's call without a token ends the lease.
			if _, err := b.Release(b.t.Context(), Lease{Queue: b.queue, ID: m.ID}, time.Hour); err != nil {
				b.t.Error(err)
			}
		},
		"not extended in time": func(b *bench, _ *Message) {
			b.wire.mu.Lock()
			defer b.wire.mu.Unlock()
			b.wire.lose = func(r *http.Request) loss {
				if strings.HasSuffix(r.URL.Path, "/extend") {
					return theRequest
				}
				return nothing
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			id := b.put(text("x")).ID
			causes := make(chan error, 10)
			w := b.start(Worker{
				Concurrency: 1, VisibilityTimeout: time.Second,
				Handler: func(ctx context.Context, m *Message) error {
					take(b, m)
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return ctx.Err()
				},
			})
			if cause := <-causes; !errors.Is(cause, ErrLeaseLost) {
				t.Errorf("the cause is %v", cause)
			}
			eventually(t, "the loss to be logged", func() bool { return strings.Contains(w.notes.String(), "lease was lost") })
			w.stop()
			if m := b.get(id); m.LastFailure != nil && m.LastFailure.ErrorClass != "LeaseExpired" {
				t.Errorf("what the handler returned was recorded: %+v", m.LastFailure)
			}
			if err := w.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWorkerFinishesWhatItCanAtShutdown: what runs is finished, what was not started is given back.
func TestWorkerFinishesWhatItCanAtShutdown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ids []int64
	for range 5 {
		ids = append(ids, b.put(text("x")).ID)
	}
	started, finish := make(chan int64, 5), make(chan struct{})
	w := b.start(Worker{Concurrency: 2, Prefetch: 3, Handler: func(_ context.Context, m *Message) error {
		started <- m.ID
		<-finish
		return nil
	}})
	running := []int64{<-started, <-started}
	eventually(t, "all to be claimed", func() bool { return b.depth().Processing == 5 })
	w.stop()
	eventually(t, "three to be given back", func() bool { return b.depth().Pending == 3 })
	close(finish)
	if err := w.end(); err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		m := b.get(id)
		want := Pending
		if slices.Contains(running, id) {
			want = Succeeded
		}
		if m.Status != want || m.RetryCount != 0 || want == Pending && m.DeliveryCount != 0 {
			t.Errorf("message %d: %+v, want %s", id, m, want)
		}
	}
}

// TestWorkerInterruptsAtTheEndOfGrace: what did not finish is given back, and costs the message nothing.
func TestWorkerInterruptsAtTheEndOfGrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	names := []string{"heeds", "finishes", "permanent"}
	ids := map[string]int64{}
	for _, name := range names {
		ids[name] = b.put(text(name)).ID
	}
	var started sync.WaitGroup
	started.Add(len(names))
	w := b.start(Worker{ShutdownGrace: 50 * time.Millisecond, Handler: func(ctx context.Context, m *Message) error {
		started.Done()
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, ErrShutdown) {
			t.Errorf("the cause is %v", cause)
		}
		switch string(m.Payload) {
		case "finishes":
			return nil
		case "permanent":
			return Permanent(errors.New("no"))
		default:
			return fmt.Errorf("halfway: %w", ctx.Err())
		}
	}})
	started.Wait()
	if err := w.end(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]Status{"heeds": Pending, "finishes": Succeeded, "permanent": Dead} {
		if m := b.get(ids[name]); m.Status != want || name == "heeds" && m.RetryCount+m.DeliveryCount != 0 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestWorkerAbandonsWhatDoesNotEnd: a handler that ignores everything holds up neither Run nor its message.
func TestWorkerAbandonsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.put(text("x")).ID
	started, finish := make(chan struct{}), make(chan struct{})
	defer close(finish)
	w := b.start(Worker{ShutdownGrace: -1, Handler: func(context.Context, *Message) error {
		close(started)
		<-finish
		return nil
	}})
	<-started
	if err := w.end(); err == nil || !strings.Contains(err.Error(), "1 handlers did not return") {
		t.Errorf("the error is %v", err)
	}
	if m := b.get(id); m.Status != Pending || m.RetryCount != 0 {
		t.Errorf("its message: %+v", m)
	}
}
