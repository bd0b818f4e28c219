package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"deadletter.dev/deadletter/client"
)

var errDeclined = errors.New("card declined")

func Example() {
	ctx := context.Background()
	api, err := client.New(address())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := api.Enqueue(ctx, "greetings", client.NewMessage{Payload: []byte("hello")}); err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(ctx)
	err = client.Worker{
		Client: api,
		Queue:  "greetings",
		Handler: func(_ context.Context, m *client.Message) error {
			fmt.Printf("%s from %s\n", m.Payload, m.Queue)
			stop() // A real worker goes on until it is told to stop; see signal.NotifyContext.
			return nil
		},
	}.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Output: hello from greetings
}

func ExampleClient_Enqueue() {
	ctx := context.Background()
	api := newClient()

	stored, err := api.Enqueue(ctx, "invoices", client.NewMessage{
		Payload:    []byte(`{"invoice": 7}`),
		Headers:    []client.Header{{Name: "tenant", Value: "acme"}},
		MaxRetries: 5,
		GroupKey:   "customer-12",    // after this customer's earlier invoices
		Delay:      10 * time.Minute, // not before
		TTL:        24 * time.Hour,   // and not later than that
		Priority:   1,                // before those of priority 0
		// Sent again under this name within 24 hours, it is accepted once.
		DeduplicationID: "invoice-7",
	})
	switch {
	case errors.Is(err, client.ErrQueueFull):
		fmt.Println("workers must catch up first")
	case errors.Is(err, client.ErrUnknownOutcome):
		fmt.Println("it may be stored; send it again under the same name")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(stored.Status, stored.MaxRetries, stored.Header("tenant"))
	}
	// Output: pending 5 acme
}

func ExampleClient_EnqueueBatch() {
	ctx := context.Background()
	api := newClient()

	stored, err := api.EnqueueBatch(ctx, "receipts", []client.NewMessage{
		{Payload: []byte("first")},
		{Payload: []byte("second")},
	}, client.IdempotencyKey("receipts-of-2026-01-31"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(stored), "stored, or none")
	// Output: 2 stored, or none
}

// Handlers say by their errors what is to become of a message.
func ExampleHandler() {
	charge := func(context.Context, []byte) error { return errDeclined }

	handler := func(ctx context.Context, m *client.Message) error {
		if len(m.Payload) == 0 || m.Payload[0] != '{' {
			// No retry mends it: it is a dead letter at once.
			return client.Permanent(client.WithCategory(errors.New("not JSON"), client.Validation))
		}
		err := charge(ctx, m.Payload)
		if errors.Is(err, errDeclined) {
			// Tried again in an hour, not after the queue's backoff.
			return client.RetryAfter(client.WithCategory(err, client.External), time.Hour)
		}
		return err // Tried again after the queue's backoff, until its retries are used up.
	}

	report := client.NewReport(handler(context.Background(), &client.Message{Payload: []byte("{}")}))
	fmt.Println(report.Error, report.Category, *report.RetryAfter)
	// Output: card declined EXTERNAL 1h0m0s
}

// Without a worker loop: claim, and say how it ended.
func ExampleClient_Claim() {
	ctx := context.Background()
	api := newClient()
	if _, err := api.Enqueue(ctx, "reports", client.NewMessage{Payload: []byte("january")}); err != nil {
		log.Fatal(err)
	}

	claimed, err := api.Claim(ctx, "reports", client.ClaimOptions{Max: 10, Wait: 20 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range claimed {
		_, err := api.Fail(ctx, m.Lease(), client.FailureReport{Error: "no such month", Permanent: true})
		if errors.Is(err, client.ErrStaleLease) || errors.Is(err, client.ErrNotProcessing) {
			continue // It took too long: another worker has it, or will.
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s failed\n", m.Payload)
	}
	// Output: january failed
}

func ExampleClient_DeadLetters() {
	ctx := context.Background()
	api := newClient()
	bury(ctx, api, "refunds", "refund 7: no such account")

	filter := client.DeadLetterFilter{Categories: []client.Category{client.Validation}}
	for letter, err := range api.DeadLetters(ctx, "refunds", filter) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(letter.Envelope.FailureReason)
		if _, err := api.Replay(ctx, "refunds", letter.Envelope.MessageID); err != nil {
			log.Fatal(err)
		}
	}
	// Output: refund 7: no such account
}

// An error's problem has the details, and the id under which the server's log has the request.
func ExampleError() {
	_, err := newClient().Enqueue(context.Background(), "orders", client.NewMessage{
		Payload: []byte("x"), Priority: 4,
	})
	var problem *client.Error
	if errors.As(err, &problem) && errors.Is(err, client.ErrInvalid) {
		for _, wrong := range problem.Errors {
			fmt.Println(wrong.Field, wrong.Message)
		}
	}
	// Output: priority must be from 0 to 3
}

func ExampleWorker() {
	ctx, stop := context.WithCancel(context.Background())
	handle := func(context.Context, *client.Message) error { stop(); return nil }
	api := newClient()
	if _, err := api.Enqueue(ctx, "payments", client.NewMessage{Payload: []byte("x")}); err != nil {
		log.Fatal(err)
	}

	breaker := &client.Breaker{FailurePercent: 50, MinSample: 20, OpenFor: 30 * time.Second}
	worker := client.Worker{
		Client: api, Queue: "payments", Handler: handle,
		Concurrency: 20, VisibilityTimeout: time.Minute, ShutdownGrace: 25 * time.Second, Breaker: breaker,
	}
	fmt.Println(worker.Run(ctx))
	// Output: <nil>
}
