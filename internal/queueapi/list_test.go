package queueapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

type messagePage struct {
	Messages   []msg
	Count      int
	NextCursor *string `json:"next_cursor"`
}

func (s *server) list(query string) messagePage {
	s.t.Helper()
	return decode[messagePage](s.do(http.MethodGet, "/queues/orders/messages?"+query, nil).want(http.StatusOK))
}

func TestListPages(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if page := s.list(""); page.Count != 0 || page.Messages == nil || page.NextCursor != nil {
		t.Fatalf("empty list %+v", page)
	}
	var ids []int64
	for range 25 {
		ids = append(ids, s.enqueue("orders", payloadOf("x")).ID)
	}
	first := s.list("")
	if first.Count != 20 || len(first.Messages) != 20 || first.NextCursor == nil || first.Messages[0].ID != ids[0] {
		t.Fatalf("first page %+v", first)
	}
	second := s.list("cursor=" + *first.NextCursor)
	if second.Count != 5 || second.NextCursor != nil || second.Messages[0].ID != ids[20] {
		t.Fatalf("second page %+v", second)
	}
	if page := s.list("offset=24"); page.Count != 1 || page.Messages[0].ID != ids[24] {
		t.Errorf("offset 24: %+v", page)
	}
	if page := s.list("offset=2&limit=1&cursor=" + *first.NextCursor); page.Messages[0].ID != ids[22] {
		t.Errorf("offset after a cursor: %+v", page)
	}
	s.claim("orders")
	if page := s.list("status=processing"); page.Count != 1 || page.Messages[0].ID != ids[0] {
		t.Errorf("processing: %+v", page)
	}
	if page := s.list("status=pending&limit=100"); page.Count != 24 {
		t.Errorf("pending: %+v", page)
	}
}

func TestListParametersAreStrict(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tests := map[string]string{
		"status=": "status:invalid_value", "status=Dead": "status:invalid_value", "status=failed": "status:invalid_value",
		"status=dead&status=pending": "status:duplicate_field", "limit=0": "limit:out_of_range", "limit=101": "limit:out_of_range",
		"limit=-1": "limit:out_of_range", "limit=1.0": "limit:wrong_type", "limit=ten": "limit:wrong_type",
		"limit=99999999999999999999": "limit:wrong_type", "offset=-1": "offset:out_of_range", "offset=x": "offset:wrong_type",
		"offset=2147483648": "offset:out_of_range", "cursor=": "cursor:invalid_cursor", "cursor=abc": "cursor:invalid_cursor",
		"cursor=1": "cursor:invalid_cursor", "cursor=bQAAAAAAAAAA": "cursor:invalid_cursor", "cursor=bf__________8": "cursor:invalid_cursor",
		"cursor=%00": "cursor:invalid_cursor", "page=2": "page:unknown_field",
	}
	for query, want := range tests {
		got := s.do(http.MethodGet, "/queues/orders/messages?"+query, nil).problem(422, "invalid-request").fields()
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"limit=0", "cursor=bQAAAAAAAAAB", "cursor=cQ", "cursor=cS4"} {
		s.do(http.MethodGet, "/queues?"+query, nil).problem(422, "invalid-request")
	}
}

func TestListCutsLongPayloads(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const shown = 64 << 10
	text := "x" + strings.Repeat("é", shown)
	s.enqueue("orders", payloadOf(text))
	s.enqueue("orders", payloadOf(strings.Repeat("y", shown)))
	binary := []byte(strings.Repeat("\xff", shown+1))
	s.enqueue("orders", map[string]any{"payload": base64.StdEncoding.EncodeToString(binary), "payload_encoding": "base64"})
	page := s.list("")
	if m := page.Messages[0]; !m.Truncated || m.PayloadSize != len(text) || m.PayloadEncoding != "utf-8" ||
		!strings.HasPrefix(text, m.Payload) || len(m.Payload) != shown-1 || !utf8.ValidString(m.Payload) {
		t.Errorf("long text is listed as %d bytes, %t, size %d", len(m.Payload), m.Truncated, m.PayloadSize)
	}
	if m := page.Messages[1]; m.Truncated || len(m.Payload) != shown {
		t.Errorf("text of exactly the limit is cut to %d", len(m.Payload))
	}
	if m := page.Messages[2]; !m.Truncated || len(m.bytes(t)) != shown || m.PayloadSize != shown+1 {
		t.Errorf("long bytes are listed as %d", len(m.bytes(t)))
	}
	whole := decode[msg](s.do(http.MethodGet, itemPath("orders", page.Messages[0].ID), nil).want(200))
	if whole.Payload != text || whole.Truncated {
		t.Error("the message's own path does not have the whole payload")
	}
	s.do(http.MethodPost, itemPath("orders", s.claim("orders").ID)+"/fail", `{"retryable":false}`).want(200)
	letters := decode[letterPage](s.do(http.MethodGet, "/queues/orders/dead-letters", nil).want(200))
	if l := letters.Letters[0]; !l.BodyTruncated || l.BodySize != len(text) || len(l.OriginalBody) != shown-1 {
		t.Errorf("dead letter is listed with %d bytes", len(l.OriginalBody))
	}
}

// TestPageWalkUnderWrites: what stays in the list is seen exactly once while others come and go.
func TestPageWalkUnderWrites(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	staying := map[int64]int{}
	var letters []int64
	for n := range 60 {
		m := s.enqueue("orders", payloadOf("stays"))
		staying[m.ID] = 0
		if n%3 == 0 {
			letters = append(letters, s.dead("dead", payloadOf("x"), `{"retryable":false}`).ID)
		}
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			gone := s.enqueue("orders", payloadOf("comes and goes")).ID
			s.exec("DELETE FROM deadletter.message WHERE id = $1", gone)
			s.dead("dead", payloadOf("new"), `{"retryable":false}`)
		}
	})
	walk := func(path, field string, see func(r *response) *string) {
		next := ""
		for range 1000 {
			query := "?limit=7"
			if next != "" {
				query += "&cursor=" + next
			}
			cursor := see(s.do(http.MethodGet, path+query, nil).want(200))
			if cursor == nil {
				return
			}
			next = *cursor
		}
		t.Errorf("the walk of %s does not end", field)
	}
	walk("/queues/orders/messages", "messages", func(r *response) *string {
		page := decode[messagePage](r)
		for _, m := range page.Messages {
			if _, ok := staying[m.ID]; ok {
				staying[m.ID]++
			}
		}
		return page.NextCursor
	})
	var seen []int64
	walk("/queues/dead/dead-letters", "dead letters", func(r *response) *string {
		page := decode[letterPage](r)
		for _, l := range page.Letters {
			seen = append(seen, l.Envelope.MessageID)
		}
		return page.NextCursor
	})
	close(stop)
	writers.Wait()
	for id, times := range staying {
		if times != 1 {
			t.Errorf("message %d was seen %d times", id, times)
		}
	}
	seen = slices.DeleteFunc(seen, func(id int64) bool { return !slices.Contains(letters, id) })
	slices.Reverse(letters)
	if diff := cmp.Diff(letters, seen); diff != "" {
		t.Errorf("dead letters seen (-want +got):\n%s", diff)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for n := range 25 {
		s.enqueue(fmt.Sprintf("q%02d", n), payloadOf("x"))
	}
	type queue struct {
		Name     string
		Declared bool
		Settings struct {
			MaxRetries int `json:"max_retries"`
		}
		Depth          map[string]int
		OldestReadyAge *float64 `json:"oldest_ready_age_seconds"`
		OldestDeadAge  *float64 `json:"oldest_dead_age_seconds"`
	}
	type page struct {
		Queues     []queue
		Count      int
		NextCursor *string `json:"next_cursor"`
	}
	first := decode[page](s.do(http.MethodGet, "/queues", nil).want(200))
	if first.Count != 20 || first.Queues[0].Name != "q00" || first.NextCursor == nil {
		t.Fatalf("first page %+v", first)
	}
	second := decode[page](s.do(http.MethodGet, "/queues?limit=5&cursor="+*first.NextCursor, nil).want(200))
	if second.Count != 5 || second.Queues[4].Name != "q24" || second.NextCursor != nil {
		t.Errorf("second page %+v", second)
	}
	s.dead("q00", payloadOf("x"), `{"retryable":false}`)
	s.claim("q00")
	got := decode[queue](s.do(http.MethodGet, "/queues/q00", nil).want(200))
	want := map[string]int{"pending": 0, "processing": 1, "succeeded": 0, "dead": 1}
	if diff := cmp.Diff(want, got.Depth); diff != "" || got.OldestDeadAge == nil || *got.OldestDeadAge < 0 ||
		got.OldestReadyAge != nil ||
		got.Settings.MaxRetries != 3 || got.Declared {
		t.Errorf("queue %+v: %s", got, diff)
	}
}
