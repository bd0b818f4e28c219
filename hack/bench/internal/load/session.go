package load

import (
	"context"
	"time"
)

// System is a queue under test, empty and ready.
type System interface {
	// Open connects one more client.
	Open(ctx context.Context) (Session, error)
}

// Session is one client's connection; one goroutine uses it.
type Session interface {
	// Enqueue returns when all the messages are durable.
	Enqueue(ctx context.Context, payloads [][]byte) error
	Close() error
}

// Claimer is the session of a system whose workers ask for work.
type Claimer interface {
	Session
	// Claim takes up to limit messages, waiting up to wait for the first. The payloads are valid until the next Claim.
	Claim(ctx context.Context, limit int, wait time.Duration) (payloads [][]byte, err error)
	// Ack finishes what Claim took last.
	Ack(ctx context.Context) error
}

// Pusher is a system that hands messages to workers of its own making.
type Pusher interface {
	System
	// Work runs the workers until ctx ends, or returns earlier why it cannot.
	Work(ctx context.Context, events Events) error
}

// Events is told of the messages that a [Pusher] moves. Its methods may be called from many goroutines.
type Events interface {
	// Ready tells, once, that the workers wait for messages.
	Ready()
	// Delivered tells that a worker has the message.
	Delivered(payload []byte)
	// Acked tells that the message is finished and will not come again.
	Acked(payload []byte)
}
