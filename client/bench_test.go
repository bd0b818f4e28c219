package client

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// benchClient is a client without a wire between.
func benchClient(b *testing.B) (*Client, string) {
	b.Helper()
	a := sharedAPI(b)
	transport := &http.Transport{MaxIdleConnsPerHost: idleConnections}
	b.Cleanup(transport.CloseIdleConnections)
	c, err := New(a.URL, WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		b.Fatal(err)
	}
	return c, fmt.Sprintf("bench %d", queues.Add(1))
}

// BenchmarkEnqueue sends single messages from 32 goroutines: with keys, which make retries safe, and without.
func BenchmarkEnqueue(b *testing.B) {
	for name, options := range map[string][]EnqueueOption{"with keys": nil, "without": {NoKey()}} {
		b.Run(name, func(b *testing.B) {
			c, queue := benchClient(b)
			message := NewMessage{Payload: make([]byte, 200)}
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Enqueue(b.Context(), queue, message, options...); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkWorker works off a backlog with a handler that does nothing.
func BenchmarkWorker(b *testing.B) {
	for name, prefetch := range map[string]int{"no prefetch": 0, "prefetch 200": 200} {
		b.Run(name, func(b *testing.B) {
			c, queue := benchClient(b)
			for left := b.N; left > 0; left -= maxBatch {
				batch := make([]NewMessage, min(left, maxBatch))
				for i := range batch {
					batch[i].Payload = make([]byte, 200)
				}
				if _, err := c.EnqueueBatch(b.Context(), queue, batch); err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var handled atomic.Int64
			b.ResetTimer()
			err := Worker{
				Client: c, Queue: queue, Concurrency: 20, Prefetch: prefetch, Logger: discard,
				Handler: func(context.Context, *Message) error {
					if int(handled.Add(1)) == b.N {
						stop()
					}
					return nil
				},
			}.Run(ctx)
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
