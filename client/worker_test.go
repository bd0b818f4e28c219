package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// notes is a log that a test can look at.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// running is a worker that runs until the test stops it.
type running struct {
	t      *testing.T
	stop   context.CancelFunc
	result chan error
	notes  *notes
}

// start runs a worker on the bench.
func (b *bench) start(w Worker) *running {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: b.t, stop: cancel, result: make(chan error, 1), notes: new(notes)}
	w.Client, w.Queue = b.Client, b.queue
	w.Logger = slog.New(slog.NewTextHandler(r.notes, nil))
	go func() { r.result <- w.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		select {
		case err := <-r.result:
			r.result <- err
		case <-time.After(patience):
			b.t.Error("the worker does not end")
		}
		if b.t.Failed() {
			b.t.Logf("the worker's log:\n%s", r.notes)
		}
	})
	return r
}

// end stops the worker and returns what Run did.
func (r *running) end() error {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.result:
		r.result <- err
		return err
	case <-time.After(patience):
		r.t.Fatal("the worker does not end")
		return nil
	}
}

// awaitStatus waits until a message is in a state.
func (b *bench) awaitStatus(id int64, status Status) *Message {
	b.t.Helper()
	var m *Message
	eventually(b.t, fmt.Sprintf("message %d to be %s", id, status), func() bool {
		m = b.get(id)
		return m.Status == status
	})
	return m
}

func TestWorkerHandlesEverythingOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const messages = 500
	var batch []NewMessage
	for i := range messages {
		batch = append(batch, text(strconv.Itoa(i)))
	}
	if _, err := b.EnqueueBatch(t.Context(), b.queue, batch); err != nil {
		t.Fatal(err)
	}
	var (
		mu            sync.Mutex
		seen          = map[string]int{}
		at, mostAtOne atomic.Int64
	)
	w := b.start(Worker{Concurrency: 8, Prefetch: 20, Handler: func(_ context.Context, m *Message) error {
		now := at.Add(1)
		defer at.Add(-1)
		mu.Lock()
		defer mu.Unlock()
		mostAtOne.Store(max(mostAtOne.Load(), now))
		seen[string(m.Payload)]++
		return nil
	}})
	eventually(t, "all to succeed", func() bool { return b.depth().Succeeded == messages })
	if err := w.end(); err != nil {
		t.Error(err)
	}
	for payload, times := range seen {
		if times != 1 {
			t.Errorf("%s was handled %d times", payload, times)
		}
	}
	if len(seen) != messages || mostAtOne.Load() > 8 {
		t.Errorf("%d messages were handled, %d at a time", len(seen), mostAtOne.Load())
	}
	if calls := b.wire.count("/succeed"); calls > messages/4 {
		t.Errorf("%d calls for %d outcomes", calls, messages)
	}
}

func TestWorkerReportsFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	handlers := map[string]func() error{
		"plain":      func() error { return fmt.Errorf("charge: %w", &cardError{7}) },
		"permanent":  func() error { return Permanent(WithCategory(errors.New("no sku"), Validation)) },
		"later":      func() error { return RetryAfter(errors.New("busy"), time.Hour) },
		"panic":      panics,
		"nil map":    func() error { return writeTo(nil) },
		"goexit":     func() error { runtime.Goexit(); return nil },
		"with stack": func() error { err, _ := origin(); return err },
	}
	ids := map[string]int64{}
	for name := range handlers {
		m := NewMessage{Payload: []byte(name), MaxRetries: 1}
		if name == "permanent" || name == "later" {
			m.MaxRetries = 3
		}
		ids[name] = b.put(m).ID
	}
	w := b.start(Worker{Handler: func(_ context.Context, m *Message) error { return handlers[string(m.Payload)]() }})
	failed := map[string]*Message{}
	for name, id := range ids {
		eventually(t, name+" to fail", func() bool {
			failed[name] = b.get(id)
			return failed[name].LastFailure != nil
		})
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]Failure{
		"plain":      {Reason: "charge: card 7", Category: Unknown, ErrorClass: "client.cardError"},
		"permanent":  {Reason: "no sku", Category: Validation, ErrorClass: "errors.errorString"},
		"later":      {Reason: "busy", Category: Unknown, ErrorClass: "errors.errorString"},
		"panic":      {Reason: "panic: boom", Category: Unknown, ErrorClass: "panic"},
		"nil map":    {Reason: "panic: assignment to entry in nil map", Category: Unknown, ErrorClass: "runtime.plainError"},
		"goexit":     {Reason: errGoexit.Error(), Category: Unknown, ErrorClass: "errors.errorString"},
		"with stack": {Reason: "no", Category: Unknown, ErrorClass: "errors.errorString"},
	} {
		got := failed[name].LastFailure
		if got.Reason != want.Reason || got.Category != want.Category || got.ErrorClass != want.ErrorClass ||
			got.Consumer != (Consumer{"test", "1.0"}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if m := failed["permanent"]; m.Status != Dead {
		t.Errorf("a permanent failure leaves %s", m.Status)
	}
	if m := failed["later"]; m.RetryAfter.Sub(m.UpdatedAt) != time.Hour {
		t.Errorf("it is tried again %s later", m.RetryAfter.Sub(m.UpdatedAt))
	}
	for name, first := range map[string]string{
		"panic": "client.panics (", "nil map": "client.writeTo (", "with stack": "client.origin (",
	} {
		if stack := b.stackOf(failed[name]); !strings.HasPrefix(stack, "deadletter.dev/deadletter/"+first) {
			t.Errorf("%s has the stack %q", name, stack)
		}
	}
}

// stackOf is the stack of a dead letter's only failure.
func (b *bench) stackOf(m *Message) string {
	b.t.Helper()
	letter, err := b.DeadLetter(b.t.Context(), b.queue, m.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return letter.Attempts[0].Failure.StackTrace
}

//go:noinline
func panics() error { panic("boom") }

//go:noinline
func writeTo(m map[string]int) error {
	m["x"] = 1
	return nil
}

func TestWorkerChecksItsSettings(t *testing.T) {
	t.Parallel()
	c, err := New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	handler := func(context.Context, *Message) error { return nil }
	good := Worker{Client: c, Queue: "q", Handler: handler}
	for name, spoil := range map[string]func(*Worker){
		"client":      func(w *Worker) { w.Client = nil },
		"queue":       func(w *Worker) { w.Queue = "" },
		"handler":     func(w *Worker) { w.Handler = nil },
		"concurrency": func(w *Worker) { w.Concurrency = -1 },
		"prefetch":    func(w *Worker) { w.Prefetch = -1 },
		"poll":        func(w *Worker) { w.PollWait = 21 * time.Second },
		"short poll":  func(w *Worker) { w.PollWait = time.Millisecond },
		"visibility":  func(w *Worker) { w.VisibilityTimeout = time.Millisecond },
		"batch":       func(w *Worker) { w.AckBatch = 1001 },
		"percent":     func(w *Worker) { w.Breaker = &Breaker{FailurePercent: 101} },
		"window":      func(w *Worker) { w.Breaker = &Breaker{Window: -1} },
	} {
		w := good
		spoil(&w)
		if err := w.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "worker: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWorkerEndsWhenClaimsAreHopeless(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.queue = "a\nb"
	w := b.start(Worker{Handler: func(context.Context, *Message) error { return nil }})
	if err := <-w.result; !errors.Is(err, ErrNotFound) {
		t.Errorf("the error is %v", err)
	} else {
		w.result <- err
	}
}
