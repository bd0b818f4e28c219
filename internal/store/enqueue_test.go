package store_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"deadletter.dev/deadletter/internal/store"
)

const orphansSQL = `SELECT count(*)::int FROM deadletter.message m
	WHERE NOT EXISTS (SELECT FROM deadletter.queue q WHERE q.id = m.queue_id)`

// interrupted is a connection on which something happens before each thing said to the server.
type interrupted struct {
	net.Conn
	interrupt func()
}

func (c interrupted) Write(b []byte) (int, error) {
	c.interrupt()
	return c.Conn.Write(b)
}

// An enqueue to a queue that anybody may create does not fail because somebody deletes the queue, however often.
func TestEnqueueOutlivesDeletions(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var deleting atomic.Bool
	interrupt := func() {
		if !deleting.Load() {
			return
		}
		if err := d.DeleteQueue(t.Context(), orders, owner, false); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	sender := openDatabase(t, d.url, store.Options{
		MaxConns: 1,
		DialFunc: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return interrupted{conn, interrupt}, err
		},
	})
	d.mustEnqueue(t, 1)
	deleting.Store(true)
	messages := []store.NewMessage{{Payload: []byte("a")}, {Payload: []byte("b")}}
	accepted, err := sender.Enqueue(t.Context(), orders, messages)
	deleting.Store(false)
	if err != nil || len(accepted) != 2 {
		t.Fatalf("accepted %d: %v", len(accepted), err)
	}
	for _, m := range accepted {
		if _, err := d.Get(t.Context(), orders, m.ID); err != nil {
			t.Errorf("get an accepted message: %v", err)
		}
	}
	d.check(t)
}

// An accepted message is in a queue that exists, or goes with its queue: never does the queue go and leave it behind.
func TestDeleteQueueWaitsForEnqueues(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]bool{"to a queue": true, "to a queue that it creates": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			if there {
				d.mustEnqueue(t, 1)
			}
			slow, resume := d.pausing(t)
			sent := call(func() error {
				_, err := slow.Enqueue(t.Context(), orders, []store.NewMessage{{Payload: []byte("p")}})
				return err
			})
			d.awaitStop(t, 1, sent)
			deleted := call(func() error { return d.DeleteQueue(t.Context(), orders, owner, false) })
			d.awaitStop(t, 2, sent, deleted)
			resume()
			wantDone(t, sent, deleted)
			if n := d.count(t, orphansSQL); n != 0 {
				t.Fatalf("%d accepted messages are in no queue", n)
			}
			d.check(t)
		})
	}
}
