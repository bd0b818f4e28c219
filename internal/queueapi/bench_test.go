package queueapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// instantBackend answers at once with what it holds, so that benchmarks measure nothing but the API.
type instantBackend struct {
	Backend

	messages []message.Message
}

func newInstantBackend(messages int) *instantBackend {
	b := &instantBackend{messages: make([]message.Message, messages)}
	at := time.Date(2026, 12, 1, 4, 50, 12, 345678000, time.UTC)
	expires := at.Add(time.Minute)
	for i := range b.messages {
		b.messages[i] = message.Message{
			ID: 1e9 + int64(i), Queue: "orders", Payload: bytes.Repeat([]byte("0123456789abcdef"), 16), PayloadSize: 256,
			Headers: []message.Header{{Name: "content-type", Value: "application/json"}}, Status: message.Processing,
			MaxRetries: 3, DeliveryCount: 1, CreatedAt: at, UpdatedAt: at,
			Lease: &message.Lease{Token: "0192a3b4-c5d6-7e8f-9a0b-1c2d3e4f5a6b", ExpiresAt: expires},
		}
	}
	return b
}

// Claim implements store.Engine.
func (b *instantBackend) Claim(context.Context, string, store.ClaimParams) ([]message.Message, error) {
	return b.messages, nil
}

// Enqueue implements store.Engine.
func (b *instantBackend) Enqueue(context.Context, string, []store.NewMessage) ([]message.Message, error) {
	return b.messages, nil
}

// Succeed implements store.Engine.
func (b *instantBackend) Succeed(context.Context, string, []store.LeaseRef) ([]store.Settled, error) {
	settled := make([]store.Settled, len(b.messages))
	for i := range settled {
		settled[i].Message = b.messages[i]
	}
	return settled, nil
}

// RetryAfter implements Backend.
func (*instantBackend) RetryAfter(context.Context, string) (time.Duration, error) { return 0, nil }

// CheckSchema implements Prober.
func (*instantBackend) CheckSchema(context.Context) error { return nil }

// PoolStats implements Prober.
func (*instantBackend) PoolStats() store.PoolStats { return store.PoolStats{Max: 16} }

// benchRequests are the requests of a message's life, for as many messages at once as there are in batch.
func benchRequests(batch int) map[string][2]string {
	item := `{"payload":"` + strings.Repeat("0123456789abcdef", 16) + `"}`
	lease := `{"lease_token":"0192a3b4-c5d6-7e8f-9a0b-1c2d3e4f5a6b"}`
	if batch == 1 {
		return map[string][2]string{
			"enqueue": {"/queues/orders/messages", item},
			"claim":   {"/queues/orders/claim", "{}"},
			"succeed": {"/queues/orders/messages/1000000000/succeed", lease},
		}
	}
	leases := make([]string, batch)
	for i := range leases {
		leases[i] = fmt.Sprintf(`{"id":%d,`, 1_000_000_000+i) + lease[1:]
	}
	list := func(items string) string { return "[" + strings.TrimSuffix(items, ",") + "]" }
	return map[string][2]string{
		"enqueue": {"/queues/orders/messages", `{"messages":` + list(strings.Repeat(item+",", batch)) + `}`},
		"claim":   {"/queues/orders/claim", fmt.Sprintf(`{"max":%d}`, batch)},
		"succeed": {"/queues/orders/succeed", `{"items":` + list(strings.Join(leases, ",")) + `}`},
	}
}

func newBenchAPI(b *testing.B, messages int) *API {
	b.Helper()
	api, err := New(Options{Backend: newInstantBackend(messages), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	if err := api.CheckSchema(b.Context()); err != nil {
		b.Fatal(err)
	}
	return api
}

// discarded is an answer that goes nowhere.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header           { return d.header }
func (d *discarded) WriteHeader(status int)        { d.status = status }
func (*discarded) Write(p []byte) (int, error)     { return len(p), nil }
func (*discarded) Flush()                          {}
func (*discarded) SetReadDeadline(time.Time) error { return nil }

// BenchmarkHandler is the work of one request within the handler.
func BenchmarkHandler(b *testing.B) {
	for _, batch := range []int{1, 100} {
		for name, request := range benchRequests(batch) {
			b.Run(fmt.Sprintf("%s/%d", name, batch), func(b *testing.B) {
				api := newBenchAPI(b, batch)
				target, err := http.NewRequestWithContext(b.Context(), http.MethodPost, request[0], http.NoBody)
				if err != nil {
					b.Fatal(err)
				}
				target.ContentLength = int64(len(request[1]))
				answer := &discarded{header: http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					target.Body = io.NopCloser(strings.NewReader(request[1]))
					clear(answer.header)
					api.ServeHTTP(answer, target)
					if answer.status >= http.StatusBadRequest {
						b.Fatalf("status %d", answer.status)
					}
				}
			})
		}
	}
}

// BenchmarkConnection is the work of one request on a connection of its own, with that of a plain client.
func BenchmarkConnection(b *testing.B) {
	for name, request := range benchRequests(1) {
		b.Run(name, func(b *testing.B) {
			web := httptest.NewUnstartedServer(newBenchAPI(b, 1))
			web.Config.ReadTimeout, web.Config.WriteTimeout = readTimeout, writeTimeout
			web.Start()
			b.Cleanup(web.Close)
			conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", strings.TrimPrefix(web.URL, "http://"))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = conn.Close() })
			raw := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
				"Content-Length: %d\r\n\r\n%s", request[0], len(request[1]), request[1])
			from := bufio.NewReader(conn)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(raw); err != nil {
					b.Fatal(err)
				}
				answer, err := http.ReadResponse(from, nil)
				if err != nil || answer.StatusCode >= http.StatusBadRequest {
					b.Fatal(answer, err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		})
	}
}
