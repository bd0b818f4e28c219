package queueapi_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
	"deadletter.dev/deadletter/internal/store/storetest"
)

type batchResults struct {
	Results []struct {
		ID      *int64
		Status  int
		Message *msg
		Problem *problem
	}
}

// statuses are the statuses of the items, in order.
func (r batchResults) statuses() string {
	var statuses []string
	for _, result := range r.Results {
		statuses = append(statuses, strconv.Itoa(result.Status))
	}
	return strings.Join(statuses, " ")
}

func requireToken(options *queueapi.Options, _ *store.Options) { options.RequireLeaseToken = true }

// exec changes the database behind the API's back, to move time along.
func (s *server) exec(sql string, args ...any) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.dbURL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(s.t.Context())
	if _, err := conn.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// makeReady ends the backoff of a message.
func (s *server) makeReady(_ string, id int64) {
	s.t.Helper()
	s.exec("UPDATE deadletter.message SET ready_at = now() - interval '1 second' WHERE id = $1", id)
}

// expireLease ends the lease of a message.
func (s *server) expireLease(id int64) {
	s.t.Helper()
	for _, statement := range storetest.ExpireLeaseSQL("deadletter") {
		s.exec(statement, id)
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
