package load

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// memory is a queue that can be made to misbehave.
type memory struct {
	mu    sync.Mutex
	queue [][]byte
	// lose drops the message of that number, twice delivers it twice.
	lose, twice int64
	failure     error
}

func (m *memory) Open(context.Context) (Session, error) { return &memorySession{queue: m}, nil }

type memorySession struct{ queue *memory }

func (s *memorySession) Close() error { return nil }

func (s *memorySession) Enqueue(_ context.Context, payloads [][]byte) error {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	for _, payload := range payloads {
		head, _ := readHead(payload)
		if s.queue.lose != 0 && head.number == s.queue.lose {
			continue
		}
		s.queue.queue = append(s.queue.queue, bytes.Clone(payload))
		if s.queue.twice != 0 && head.number == s.queue.twice {
			s.queue.queue = append(s.queue.queue, bytes.Clone(payload))
		}
	}
	return s.queue.failure
}

func (s *memorySession) Claim(ctx context.Context, limit int, wait time.Duration) ([][]byte, error) {
	for end := time.Now().Add(wait); ; {
		s.queue.mu.Lock()
		count := min(limit, len(s.queue.queue))
		claimed := s.queue.queue[:count:count]
		s.queue.queue = s.queue.queue[count:]
		s.queue.mu.Unlock()
		if count > 0 || !time.Now().Before(end) {
			return claimed, ctx.Err()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Microsecond):
		}
	}
}

func (s *memorySession) Ack(context.Context) error { return nil }

// pushing makes a Pusher of it.
type pushing struct{ *memory }

func (p pushing) Work(ctx context.Context, events Events) error {
	events.Ready()
	session := &memorySession{queue: p.memory}
	for ctx.Err() == nil {
		claimed, _ := session.Claim(ctx, 10, time.Millisecond)
		for _, payload := range claimed {
			events.Delivered(payload)
			events.Acked(payload)
		}
	}
	return ctx.Err()
}

func TestClosedLoopAccountsForEveryMessage(t *testing.T) {
	t.Parallel()
	for name, system := range map[string]System{"pull": &memory{}, "push": pushing{&memory{}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := NewLedger()
			loop := Closed{Clients: 4, Batch: 10, Duration: 20 * time.Millisecond, Window: 100}
			took, err := loop.Run(t.Context(), system, ledger)
			if err != nil {
				t.Fatal(err)
			}
			if took < loop.Duration || ledger.Count() == 0 || ledger.Added() != 0 || ledger.Repeats() != 0 {
				t.Errorf("%d messages in %v, %d added, %d repeated", ledger.Count(), took, ledger.Added(), ledger.Repeats())
			}
			if ledger.ToAck.Count() != ledger.Count() || ledger.ToDelivery.Count() != ledger.Count() {
				t.Errorf("%d and %d latencies of %d messages", ledger.ToDelivery.Count(), ledger.ToAck.Count(), ledger.Count())
			}
		})
	}
}

func TestClosedLoopToleratesRepeats(t *testing.T) {
	t.Parallel()
	for name, system := range map[string]System{"pull": &memory{twice: 5}, "push": pushing{&memory{twice: 5}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := NewLedger()
			loop := Closed{Clients: 2, Batch: 10, Duration: 5 * time.Millisecond, Window: 100}
			if _, err := loop.Run(t.Context(), system, ledger); err != nil {
				t.Fatal(err)
			}
			if ledger.Repeats() > 1 || ledger.Added() != 0 {
				t.Errorf("%d repeats, %d added", ledger.Repeats(), ledger.Added())
			}
		})
	}
}

func TestClosedLoopTellsOfLossAndFailure(t *testing.T) {
	t.Parallel()
	// The loss shows by nothing moving any more, which the test need not wait for.
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errStuck)
	defer cancel()
	ledger := NewLedger()
	_, err := Closed{Clients: 1, Batch: 10, Duration: time.Millisecond}.Run(ctx, &memory{lose: 3}, ledger)
	if !errors.Is(err, errStuck) {
		t.Errorf("loss: got %v", err)
	}
	if err := ledger.Check(); err == nil || !strings.Contains(err.Error(), "accepted") {
		t.Errorf("a ledger with a loss: got %v", err)
	}
	broken := errors.New("disk full")
	if _, err := (Closed{Clients: 1, Batch: 1, Duration: time.Millisecond}).Run(t.Context(),
		&memory{failure: broken}, NewLedger()); !errors.Is(err, broken) {
		t.Errorf("failure: got %v", err)
	}
}

func TestBacklogEndsInPlaceOfTheRunsOwn(t *testing.T) {
	t.Parallel()
	queue := &memory{queue: Backlog(1000)}
	ledger := NewLedger()
	loop := Closed{Clients: 2, Batch: 10, Duration: 5 * time.Millisecond, Backlog: true}
	if _, err := loop.Run(t.Context(), queue, ledger); err != nil {
		t.Fatal(err)
	}
	if got := int64(len(queue.queue)); got != 1000+ledger.Added() {
		t.Errorf("%d are left, want 1000 and %d more", got, ledger.Added())
	}
}

func TestMessagesOfNobodyAreRefused(t *testing.T) {
	t.Parallel()
	queue := &memory{queue: Backlog(1)}
	_, err := Closed{Clients: 1, Batch: 10, Duration: 5 * time.Millisecond}.Run(t.Context(), queue, NewLedger())
	if err == nil {
		t.Error("a message that nobody sent was counted")
	}
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	t.Parallel()
	for name, system := range map[string]System{"pull": &memory{}, "push": pushing{&memory{}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := NewLedger()
			loop := Open{Rate: 1000, Senders: 4, Workers: 2, Duration: 100 * time.Millisecond}
			took, err := loop.Run(t.Context(), system, ledger)
			if err != nil {
				t.Fatal(err)
			}
			if ledger.Count() != 100 || took < 99*time.Millisecond {
				t.Errorf("%d messages in %v, want 100 in 100ms", ledger.Count(), took)
			}
		})
	}
}
