package queuetest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Gate is the way to a database, which can be closed.
type Gate struct {
	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

var errClosed = errors.New("the gate is closed")

// Dial connects while the gate is open.
func (g *Gate) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errClosed}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		g.conns = append(g.conns, conn)
	}
	return conn, err
}

// Close breaks every connection and refuses new ones.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, conn := range g.conns {
		_ = conn.Close() // the pool may have closed it before
	}
	g.conns = nil
}

// Open lets connections through again.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}
