package blackbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	producers  = 4
	workers    = 8
	visibility = 3 * time.Second
)

// load is producers and workers at work on one queue, through any of several API processes.
type load struct {
	t       *testing.T
	apis    []*api
	ledger  *ledger
	number  atomic.Int64
	produce sync.WaitGroup
	work    sync.WaitGroup
	// stopProducing and stopWorking end the two kinds of clients.
	stopProducing, stopWorking context.CancelFunc
}

func startLoad(t *testing.T, apis ...*api) *load {
	t.Helper()
	l := &load{t: t, apis: apis, ledger: newLedger(t)}
	producing, stopProducing := context.WithCancel(t.Context())
	working, stopWorking := context.WithCancel(t.Context())
	l.stopProducing, l.stopWorking = stopProducing, stopWorking
	t.Cleanup(func() {
		stopProducing()
		stopWorking()
		l.produce.Wait()
		l.work.Wait()
	})
	for range producers {
		l.produce.Go(func() { l.repeat(producing, l.enqueue) })
	}
	for range workers {
		l.work.Go(func() { l.repeat(working, l.claimAndSettle) })
	}
	return l
}

// repeat calls f until ctx ends, and more slowly while it fails.
func (l *load) repeat(ctx context.Context, f func() bool) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if f() {
			continue
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// path is a path of the queue at one of the processes.
func (l *load) path(rest string) string {
	return "http://" + l.apis[rand.IntN(len(l.apis))].address + "/queues/load" + rest
}

// enqueue sends one message or a batch.
func (l *load) enqueue() bool {
	size := 1 + 4*rand.IntN(2)
	batch := make([]map[string]any, size)
	for i := range batch {
		batch[i] = map[string]any{"payload": fmt.Sprintf("message %d", l.number.Add(1)), "max_retries": 10}
	}
	var body any = map[string]any{"messages": batch}
	if size == 1 {
		body = batch[0]
	}
	// Requests are not cut off when the load ends: an answer that arrives must be in the ledger.
	got, err := post(context.WithoutCancel(l.t.Context()), l.path("/messages"), body)
	if err != nil || got.status != http.StatusCreated {
		return false
	}
	var stored messages
	if size == 1 {
		stored.Messages = make([]message, 1)
		err = json.Unmarshal(got.body, &stored.Messages[0])
	} else {
		err = json.Unmarshal(got.body, &stored)
	}
	if err != nil || len(stored.Messages) != size {
		l.t.Errorf("%d messages were answered with %.300s", size, got.body)
	}
	l.ledger.accept(stored.Messages)
	return true
}

// claimAndSettle claims some messages and finishes, fails or forgets each.
func (l *load) claimAndSettle() bool {
	ctx := context.WithoutCancel(l.t.Context())
	body := map[string]any{"max": 5, "wait_seconds": 1, "visibility_timeout_seconds": int(visibility / time.Second)}
	got, err := post(ctx, l.path("/claim"), body)
	if err != nil || got.status != http.StatusOK {
		return false
	}
	var claimed messages
	if err := json.Unmarshal(got.body, &claimed); err != nil {
		l.t.Errorf("a claim was answered with %.300s", got.body)
	}
	for _, m := range claimed.Messages {
		l.ledger.claim(m)
		action := "succeed"
		switch rand.IntN(20) {
		case 0:
			continue // A worker that crashes: the lease expires.
		case 1:
			action = "fail"
		}
		report := map[string]any{"lease_token": m.LeaseToken}
		if action == "fail" {
			report["error"], report["retry_after_seconds"] = "try again", 0.1
		}
		got, _ := post(ctx, l.path(fmt.Sprintf("/messages/%d/%s", m.ID, action)), report)
		l.ledger.end(m, action, got.status)
	}
	return true
}

// await returns once as many messages more were accepted, and finished.
func (l *load) await(more int) {
	l.t.Helper()
	accepted, finished, _ := l.ledger.counts()
	eventually(l.t, fmt.Sprintf("%d more messages", more), func() bool {
		nowAccepted, nowFinished, _ := l.ledger.counts()
		return nowAccepted >= accepted+more && nowFinished >= finished+more
	})
}

// drainAndCheck lets the workers finish what was accepted and checks that nothing was lost.
func (l *load) drainAndCheck() {
	l.t.Helper()
	l.stopProducing()
	l.produce.Wait()
	eventually(l.t, "the queue to be worked off", func() bool {
		got, err := get(l.t.Context(), l.path(""))
		var q queue
		return err == nil && got.status == http.StatusOK && json.Unmarshal(got.body, &q) == nil &&
			q.Depth.Pending == 0 && q.Depth.Processing == 0
	})
	l.stopWorking()
	l.work.Wait()
	stored := l.readAll("")
	accepted, finished, _ := l.ledger.snapshot()
	for id, payload := range accepted {
		m, ok := stored[id]
		switch {
		case !ok:
			l.t.Errorf("message %d was accepted and is lost", id)
		case m.Payload != payload:
			l.t.Errorf("message %d was accepted as %q and is %q", id, payload, m.Payload)
		case m.Status != "succeeded" && m.Status != "dead":
			l.t.Errorf("message %d is %s in the end", id, m.Status)
		case finished[id] && m.Status != "succeeded":
			l.t.Errorf("message %d was finished and is %s", id, m.Status)
		}
	}
	_, _, claims := l.ledger.counts()
	l.t.Logf("%d accepted, %d finished, %d claims, %d stored", len(accepted), len(finished), claims, len(stored))
}

// readAll walks the pages of the queue.
func (l *load) readAll(status string) map[int64]message {
	l.t.Helper()
	all := map[int64]message{}
	query := "?limit=100"
	if status != "" {
		query += "&status=" + status
	}
	for cursor := ""; ; {
		got, err := get(l.t.Context(), l.path("/messages"+query+cursor))
		if err != nil || got.status != http.StatusOK {
			l.t.Fatalf("list: %v, %d %.300s", err, got.status, got.body)
		}
		var page messages
		if err := json.Unmarshal(got.body, &page); err != nil {
			l.t.Fatal(err)
		}
		for _, m := range page.Messages {
			all[m.ID] = m
		}
		if page.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + *page.NextCursor
	}
}
