// Package client talks to a Deadletter queue API, and runs workers against it.
//
// A [Client] has one method for each route of the API. It repeats a call that failed on the way only where repeating
// cannot do harm, and says so when it does not know whether a change was made: see [ErrUnknownOutcome].
//
//	queue, err := client.New("http://default-api.deadletter-system.svc")
//	...
//	stored, err := queue.Enqueue(ctx, "orders", client.NewMessage{Payload: []byte(`{"order": 7}`)})
//
// A [Worker] claims messages, hands each to a function, keeps its lease alive meanwhile, and reports how it ended:
//
//	err := client.Worker{
//		Client: queue, Queue: "orders", Concurrency: 10,
//		Handler: func(ctx context.Context, m *client.Message) error { return ship(ctx, m.Payload) },
//	}.Run(ctx)
//
// Delivery is at least once: a handler may see a message again after it has done its work, so it should be idempotent.
// The message's id is a good key.
//
// Durations are sent as whole seconds, rounded up, unless said otherwise. Times are by the database's clock.
package client
