package store_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"deadletter.dev/deadletter/internal/store"
)

// onceBefore is a way to the database on which something else happens before a statement of some text is first sent.
func onceBefore(text string, happens func()) func(context.Context, string, string) (net.Conn, error) {
	var once sync.Once
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &watchedConn{Conn: conn, text: []byte(text), happens: func() { once.Do(happens) }}, err
	}
}

type watchedConn struct {
	net.Conn

	text    []byte
	happens func()
}

func (c *watchedConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, c.text) {
		c.happens()
	}
	return c.Conn.Write(b)
}

// A claim that finds the rest of a segment taken by another goes on to what is ready after it, and is not told that
// there is nothing.
func TestClaimGoesOnWhenAnotherWasFaster(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.mustEnqueue(t, 2)
	d.rotate(t, late)
	after, err := d.Enqueue(t.Context(), orders, []store.NewMessage{{GroupKey: "k"}})
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	slow := openDatabase(t, d.url, store.Options{DialFunc: onceBefore("placed AS MATERIALIZED", func() {
		if n := len(d.mustClaim(t, 2)); n != 2 {
			t.Errorf("the faster one claimed %d messages, want 2", n)
		}
	})})
	if held := slow.mustClaim(t, 1); len(held) != 1 || held[0].ID != after[0].ID {
		t.Fatalf("claimed %+v, want message %d", held, after[0].ID)
	}
	d.check(t)
}
