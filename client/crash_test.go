package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestNothingIsLostWhenTheServerRestarts: producers and a worker live through kills and drains of their server. What
// was accepted is finished, and what was finished is not handled again.
func TestNothingIsLostWhenTheServerRestarts(t *testing.T) {
	t.Parallel()
	a := ownAPI(t)
	b := a.bench(t)
	var (
		mu       sync.Mutex
		accepted = map[int64]string{}
		handled  = map[int64]int{}
	)
	counts := func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return len(accepted), len(handled)
	}
	w := b.start(Worker{
		Concurrency: 4, Prefetch: 8, VisibilityTimeout: 3 * time.Second,
		Handler: func(_ context.Context, m *Message) error {
			mu.Lock()
			defer mu.Unlock()
			handled[m.ID]++
			return nil
		},
	})
	producing, stopProducing := context.WithCancel(t.Context())
	defer stopProducing()
	var producers sync.WaitGroup
	for p := range 3 {
		producers.Go(func() {
			for n := 0; producing.Err() == nil; n++ {
				name := fmt.Sprintf("%d-%d", p, n)
				// Each message is sent until it is accepted, under one name.
				m := NewMessage{Payload: []byte(name), DeduplicationID: name, MaxRetries: 10}
				for producing.Err() == nil {
					stored, err := b.Enqueue(producing, b.queue, m)
					if err == nil {
						mu.Lock()
						accepted[stored.ID] = name
						mu.Unlock()
						break
					}
				}
			}
		})
	}
	more := func(n int) {
		t.Helper()
		acceptedBefore, handledBefore := counts()
		eventually(t, "more messages", func() bool {
			acceptedNow, handledNow := counts()
			return acceptedNow >= acceptedBefore+n && handledNow >= handledBefore+n
		})
	}
	for range 2 {
		for _, end := range []string{"kill", "drain"} {
			more(40)
			a.act(t, end)
			a.act(t, "start")
		}
	}
	more(40)
	stopProducing()
	producers.Wait()
	eventually(t, "the queue to be worked off", func() bool {
		depth := b.depth()
		return depth.Pending == 0 && depth.Processing == 0
	})
	if err := w.end(); err != nil {
		t.Error(err)
	}
	payloads := map[string]bool{}
	for m, err := range b.Messages(t.Context(), b.queue, MessageFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if payloads[string(m.Payload)] {
			t.Errorf("%s is there twice", m.Payload)
		}
		payloads[string(m.Payload)] = true
		if m.Status != Succeeded {
			t.Errorf("%s is %s: %s", m.Payload, m.Status, m.LastError)
		}
		mu.Lock()
		if handled[m.ID] == 0 || accepted[m.ID] != "" && accepted[m.ID] != string(m.Payload) {
			t.Errorf("%s was handled %d times, and was accepted as %q", m.Payload, handled[m.ID], accepted[m.ID])
		}
		mu.Unlock()
	}
	for id, name := range accepted {
		if !payloads[name] {
			t.Errorf("%s (%d) was accepted and is lost", name, id)
		}
	}
	again := 0
	for _, times := range handled {
		again += times - 1
	}
	t.Logf("%d accepted, %d handled again", len(accepted), again)
}

// TestOutcomesSurviveAnOutage: what is finished while the server is away is reported when it is back.
func TestOutcomesSurviveAnOutage(t *testing.T) {
	t.Parallel()
	a := ownAPI(t)
	b := a.bench(t)
	ids := []int64{b.put(text("good")).ID, b.put(text("bad")).ID}
	var started sync.WaitGroup
	started.Add(2)
	finish := make(chan struct{})
	w := b.start(Worker{VisibilityTimeout: time.Minute, Handler: func(_ context.Context, m *Message) error {
		started.Done()
		<-finish
		if string(m.Payload) == "bad" {
			return Permanent(errors.New("bad"))
		}
		return nil
	}})
	started.Wait()
	a.act(t, "kill")
	close(finish)
	eventually(t, "the report to fail", func() bool {
		return strings.Contains(w.notes.String(), "outcomes could not be reported")
	})
	a.act(t, "start")
	for i, status := range []Status{Succeeded, Dead} {
		if m := b.awaitStatus(ids[i], status); m.DeliveryCount != 1 {
			t.Errorf("message %d was delivered %d times", i, m.DeliveryCount)
		}
	}
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// TestTheLastOutcomesAreFlushed: a shutdown does not leave outcomes behind that wait for company.
func TestTheLastOutcomesAreFlushed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.put(text("x")).ID
	handled := make(chan struct{})
	w := b.start(Worker{AckDelay: time.Hour, Handler: func(context.Context, *Message) error {
		close(handled)
		return nil
	}})
	<-handled
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if m := b.get(id); m.Status != Succeeded {
		t.Errorf("the message is %s", m.Status)
	}
}

// TestOneBadOutcomeDoesNotHoldUpTheOthers: when the server refuses a batch, it is divided.
func TestOneBadOutcomeDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ids []int64
	for range 5 {
		ids = append(ids, b.put(text("x")).ID)
	}
	var handled sync.WaitGroup
	handled.Add(len(ids))
	w := b.start(Worker{AckBatch: 5, AckDelay: time.Minute, Handler: func(_ context.Context, m *Message) error {
		if m.ID == ids[2] {
			m.LeaseToken = "no token" // The space makes it one that the API refuses with all that comes with it.
		}
		handled.Done()
		return nil
	}})
	handled.Wait()
	for i, id := range ids {
		if i != 2 {
			b.awaitStatus(id, Succeeded)
		}
	}
	eventually(t, "the loss to be logged", func() bool { return strings.Contains(w.notes.String(), "an outcome is lost") })
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if m := b.get(ids[2]); m.Status != Processing {
		t.Errorf("the message whose outcome was refused is %s", m.Status)
	}
}

// TestAShutdownTakesWhatIsOnItsWay: a claim that is being answered when the worker stops is not cut off; what it brings
// is given back.
func TestAShutdownTakesWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.put(text("x")).ID
	claiming, answer := make(chan struct{}), make(chan struct{})
	var first sync.Once
	next := b.wire.next
	b.wire.next = roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if strings.HasSuffix(r.URL.Path, "/claim") {
			first.Do(func() {
				close(claiming)
				<-answer
			})
		}
		return response, err
	})
	w := b.start(Worker{Handler: func(context.Context, *Message) error {
		t.Error("it was handled")
		return nil
	}})
	<-claiming
	w.stop()
	close(answer)
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if m := b.get(id); m.Status != Pending || m.DeliveryCount != 0 || m.RetryCount != 0 {
		t.Errorf("it is %+v", m)
	}
}

// TestWorkerStopsWhileItPolls: an idle worker ends at once.
func TestWorkerStopsWhileItPolls(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(text("x"))
	handled := make(chan struct{})
	w := b.start(Worker{Handler: func(context.Context, *Message) error {
		close(handled)
		return nil
	}})
	<-handled
	eventually(t, "the next claim", func() bool { return b.wire.count("/claim") > 1 })
	began := time.Now()
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
