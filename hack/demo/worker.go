package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// order is what the messages are about.
type order struct {
	Number int    `json:"order"`
	SKU    string `json:"sku"`
}

// failure is what a worker reports of a message it could not handle.
type failure struct {
	Error      string `json:"error"`
	Category   string `json:"category,omitempty"`
	ErrorClass string `json:"error_class,omitempty"`
	Retryable  *bool  `json:"retryable,omitempty"`
	LeaseToken string `json:"lease_token"`
}

// worker handles orders: it claims messages, and reports of each whether it succeeded.
type worker struct {
	api     *api
	version string
	// handle returns nil for an order that it has shipped. attempt counts from 1.
	handle func(o order, attempt int) *failure
}

// tally is what became of the messages that a worker was given.
type tally struct {
	succeeded int
	retried   int
	dead      map[string]int
}

func (t *tally) finished() int {
	sum := t.succeeded
	for _, count := range t.dead {
		sum += count
	}

	return sum
}

const (
	workers    = 4
	workLimit  = 30 * time.Second
	claimLimit = 10
)

// work runs until a number of messages have succeeded or died.
func (w *worker) work(ctx context.Context, messages int) (tally, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, workLimit, fmt.Errorf("the worker is not done after %s", workLimit))
	defer cancel()

	ctx, finish := context.WithCancelCause(ctx)
	defer finish(nil)

	var (
		mu    sync.Mutex
		total = tally{dead: map[string]int{}}
		group sync.WaitGroup
	)

	count := func(record func(*tally)) {
		mu.Lock()
		defer mu.Unlock()

		record(&total)

		if total.finished() >= messages {
			finish(errDone)
		}
	}

	for i := range workers {
		group.Go(func() {
			if err := w.loop(ctx, fmt.Sprintf("worker-%d", i+1), count); err != nil {
				finish(err)
			}
		})
	}

	group.Wait()

	if err := context.Cause(ctx); !errors.Is(err, errDone) {
		return total, fmt.Errorf("%d of %d messages done: %w", total.finished(), messages, err)
	}

	return total, nil
}

var errDone = errors.New("done")

// loop is one thread of the worker.
func (w *worker) loop(ctx context.Context, instance string, count func(func(*tally))) error {
	for ctx.Err() == nil {
		var batch claimed

		err := w.api.post(ctx, "/queues/orders/claim", map[string]any{
			"max": claimLimit, "wait_seconds": 5,
			"consumer": map[string]string{"instance": instance, "version": w.version},
		}, &batch)
		if err != nil {
			return err
		}

		for _, m := range batch.Messages {
			if err := w.settle(ctx, m, count); err != nil {
				return err
			}
		}
	}

	return nil
}

// settle handles one message and reports the outcome.
func (w *worker) settle(ctx context.Context, m message, count func(func(*tally))) error {
	var o order
	if err := json.Unmarshal([]byte(m.Payload), &o); err != nil {
		return err
	}

	path := fmt.Sprintf("/queues/orders/messages/%d", m.ID)

	var after message

	failed := w.handle(o, m.RetryCount+1)
	if failed == nil {
		err := w.api.post(ctx, path+"/succeed", map[string]string{"lease_token": m.LeaseToken}, &after)
		if err == nil {
			count(func(t *tally) { t.succeeded++ })
		}

		return err
	}

	failed.LeaseToken = m.LeaseToken
	if err := w.api.post(ctx, path+"/fail", failed, &after); err != nil {
		return err
	}

	count(func(t *tally) {
		if after.Status == "dead" {
			t.dead[failed.Category]++
		} else {
			t.retried++
		}
	})

	return nil
}

// The story's numbers: of 200 orders, these never make it with the first version of the worker.
const (
	orders     = 200
	validation = 10
	timeout    = 10
	external   = 30
	dead       = validation + timeout + external
	// flaky orders fail once and succeed when they are tried again.
	flaky = 10
)

// duringOutage is the worker while the payment provider is down.
func duringOutage(o order, attempt int) *failure {
	never := false

	// Each remainder is that of ten orders.
	switch o.Number % (orders / 10) {
	case 3:
		return &failure{
			Error:    fmt.Sprintf("order %d: unknown sku %q", o.Number, o.SKU),
			Category: "VALIDATION", ErrorClass: "InvalidOrder", Retryable: &never,
		}
	case 7:
		return &failure{
			Error:    fmt.Sprintf("stock service gave no answer within %d ms", 2000+o.Number),
			Category: "TIMEOUT", ErrorClass: "DeadlineExceeded",
		}
	case 11, 17:
		return &failure{
			Error:    fmt.Sprintf("POST https://pay.example.com/charges/%d: connection refused", o.Number),
			Category: "EXTERNAL", ErrorClass: "ConnectError",
		}
	case 19:
		return &failure{
			Error:    fmt.Sprintf("payment provider answered 503 for order %d", o.Number),
			Category: "EXTERNAL", ErrorClass: "HTTPError",
		}
	case 13:
		if attempt == 1 {
			return &failure{Error: "lost a race for the stock", ErrorClass: "Conflict"}
		}
	}

	return nil
}

// afterOutage is the worker when the payment provider is back.
func afterOutage(order, int) *failure { return nil }
