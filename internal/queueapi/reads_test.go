package queueapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

// TestBlockedReadsLeaveConnectionsToTheDataPath: more reads than there are connections are stuck in the database.
func TestBlockedReadsLeaveConnectionsToTheDataPath(t *testing.T) {
	t.Parallel()
	const connections, reads = 4, 8
	s := newServer(t, func(_ *queueapi.Options, options *store.Options) { options.MaxConns = connections })
	m := s.dead("orders", payloadOf("x"), `{"retryable":false}`)
	conn, err := pgx.Connect(t.Context(), s.dbURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	lock, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Only the page of one dead letter reads this table.
	if _, err := lock.Exec(t.Context(), "LOCK TABLE deadletter.replay IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	answers := make(chan *response, reads)
	for range reads {
		go func() { answers <- raw(t, s.url, http.MethodGet, letterPath("orders", m.ID)) }()
	}
	for range reads - 1 { // One has a connection.
		refused := <-answers
		refused.problem(http.StatusServiceUnavailable, "overloaded")
		if refused.header.Get("Retry-After") == "" {
			t.Error("a read that had to wait too long is not told when to retry")
		}
	}
	start := time.Now()
	s.enqueue("orders", payloadOf("y"))
	held := s.claim("orders")
	s.do(http.MethodPost, itemPath("orders", held.ID)+"/succeed", nil).want(http.StatusOK)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("beside blocked reads, the data path took %s", took)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-answers).want(http.StatusOK)
	s.do(http.MethodGet, letterPath("orders", m.ID), nil).want(http.StatusOK)
}
