package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEnqueueKeepsBytesHeadersAndWishes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, payload := range map[string][]byte{
		"text":        []byte(`{"order": 7, "name": "Bücher & <Co>"}`),
		"not UTF-8":   {0xff, 0xfe, 0, 1},
		"NUL":         {0},
		"all bytes":   allBytes(),
		"surrogates":  []byte("\xed\xa0\x80"),
		"line breaks": []byte("\r\n\u2028\u2029"),
		"controls":    make([]byte, 1000),
	} {
		want := NewMessage{
			Payload: payload, Headers: []Header{{"b", "1"}, {"a", "ü\n"}, {"b", ""}},
			MaxRetries: 7, Delay: 1500 * time.Millisecond, Priority: 2, GroupKey: "group " + name, TTL: time.Minute,
		}
		stored := b.put(want)
		for _, got := range []*Message{stored, b.get(stored.ID)} {
			if !bytes.Equal(got.Payload, payload) || got.PayloadSize != len(payload) {
				t.Errorf("%s: payload %q, want %q", name, got.Payload, payload)
			}
			if diff := cmp.Diff(want.Headers, got.Headers); diff != "" {
				t.Errorf("%s: headers: %s", name, diff)
			}
			delay := got.RetryAfter.Sub(got.CreatedAt)
			if got.MaxRetries != 7 || got.Priority != 2 || got.GroupKey != want.GroupKey || delay != 2*time.Second ||
				got.ExpiresAt.Sub(got.RetryAfter) != time.Minute || got.Status != Pending || got.Queue != b.queue {
				t.Errorf("%s: %+v (delay %s)", name, got, delay)
			}
		}
	}
}

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

func TestEnqueueBatchIsInOrderAndWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var batch []NewMessage
	for i := range 1000 {
		batch = append(batch, NewMessage{Payload: []byte{byte(i), byte(i >> 8)}})
	}
	stored, err := b.EnqueueBatch(t.Context(), b.queue, batch)
	if err != nil || len(stored) != len(batch) {
		t.Fatalf("%d messages stored: %v", len(stored), err)
	}
	for i, m := range stored {
		if !bytes.Equal(m.Payload, batch[i].Payload) {
			t.Fatalf("message %d has payload %v", i, m.Payload)
		}
	}
	batch[500].Payload = nil
	_, err = b.EnqueueBatch(t.Context(), b.queue, batch)
	if problem := new(Error); !errors.As(err, &problem) || !errors.Is(err, ErrInvalid) ||
		problem.Errors[0].Field != "messages[500].payload" || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("a batch with an empty payload: %v", err)
	}
	if stored, err := b.EnqueueBatch(t.Context(), b.queue, nil); stored != nil || err != nil {
		t.Errorf("an empty batch: %v, %v", stored, err)
	}
	if depth := b.depth(); depth.Pending != 1000 {
		t.Errorf("%d messages are pending", depth.Pending)
	}
}

func (b *bench) depth() Depth {
	b.t.Helper()
	queue, err := b.Queue(b.t.Context(), b.queue)
	if err != nil {
		b.t.Fatal(err)
	}
	return queue.Depth
}

// TestLostAnswersNeverDuplicate: the answer is lost, the call is repeated, and the message is there once.
func TestLostAnswersNeverDuplicate(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(b *bench) ([]*Message, error){
		"one": func(b *bench) ([]*Message, error) {
			m, err := b.Enqueue(b.t.Context(), b.queue, text("one"))
			return []*Message{m}, err
		},
		"batch": func(b *bench) ([]*Message, error) {
			return b.EnqueueBatch(b.t.Context(), b.queue, []NewMessage{text("one"), text("two")})
		},
		"batch of which one is named": func(b *bench) ([]*Message, error) {
			return b.EnqueueBatch(b.t.Context(), b.queue, []NewMessage{
				text("one"), {Payload: []byte("two"), DeduplicationID: "two"},
			})
		},
		"key": func(b *bench) ([]*Message, error) {
			return b.EnqueueBatch(b.t.Context(), b.queue, []NewMessage{text("one"), text("two")}, IdempotencyKey("k"))
		},
	} {
		for what, lost := range map[string]loss{"request": theRequest, "answer": theAnswer} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.wire.loseFirst("/messages", lost)
				stored, err := send(b)
				if err != nil {
					t.Fatal(err)
				}
				if b.wire.count("/messages") != 2 {
					t.Errorf("sent %q", b.wire.sent)
				}
				if depth := b.depth(); depth.Pending != int64(len(stored)) {
					t.Errorf("%d messages are pending, want %d", depth.Pending, len(stored))
				}
			})
		}
	}
}

func TestKeysMakeCallsOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.put(NewMessage{Payload: []byte("x"), DeduplicationID: "x"})
	if again := b.put(NewMessage{Payload: []byte("x"), DeduplicationID: "x"}); again.ID != first.ID {
		t.Errorf("a message with a known id was stored twice: %d, %d", first.ID, again.ID)
	}
	_, err := b.Enqueue(t.Context(), b.queue, text("other"), IdempotencyKey("x"))
	if problem := new(Error); !errors.As(err, &problem) || problem.Errors[0].Code != "key_reused" {
		t.Errorf("other contents under a known key: %v", err)
	}
	if one, two := b.put(text("x")), b.put(text("x")); one.ID == two.ID {
		t.Error("two calls without a key were taken for one")
	}
}

func TestWithoutAKeyOnlyRefusalsAreRepeated(t *testing.T) {
	t.Parallel()
	overloaded := answers(503, `{"type": "https://deadletter.dev/problems/overloaded", "status": 503}`)
	send := map[string]func(c *Client) error{
		"one": func(c *Client) error { return third(c.Enqueue(t.Context(), "q", text("x"), NoKey())) },
		"batch, one of them named": func(c *Client) error {
			batch := []NewMessage{text("x"), {Payload: []byte("y"), DeduplicationID: "y"}}
			return third(c.EnqueueBatch(t.Context(), "q", batch, NoKey()))
		},
	}
	for name, send := range send {
		var waits []time.Duration
		c, s := scripted(t, &waits, overloaded, breaks(io.EOF))
		if err := send(c); !errors.Is(err, ErrUnknownOutcome) || s.calls != 2 {
			t.Errorf("%s: %d calls, %v", name, s.calls, err)
		}
		if !strings.HasPrefix(s.bodies[0], "{") {
			t.Errorf("%s: there is a key in %q", name, s.bodies[0])
		}
	}
	var waits []time.Duration
	c, s := scripted(t, &waits, breaks(io.EOF), answers(201, "{}"))
	named := NewMessage{Payload: []byte("x"), DeduplicationID: "x"}
	if _, err := c.Enqueue(t.Context(), "q", named, NoKey()); err != nil || s.calls != 2 {
		t.Errorf("a message with an id: %d calls, %v", s.calls, err)
	}
}

func TestWithoutRetriesThereAreNoKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, WithRetries(0))
	b.put(text("x"))
	if key := b.wire.header("Idempotency-Key"); key != "" {
		t.Errorf("the key is %q", key)
	}
	b.wire.loseFirst("/messages", theAnswer)
	if _, err := b.Enqueue(t.Context(), b.queue, text("y")); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("the answer was lost, and the error is %v", err)
	}
	if depth := b.depth(); depth.Pending != 2 {
		t.Errorf("%d messages are pending", depth.Pending)
	}
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.declare(t, map[string]any{"queue": b.queue, "max_length": 1})
	b.put(text("x"))
	var waits []time.Duration
	b.pause = recorded(&waits)
	_, err := b.Enqueue(t.Context(), b.queue, text("y"))
	problem := new(Error)
	if !errors.Is(err, ErrQueueFull) || !errors.As(err, &problem) || errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("a full queue: %v", err)
	}
	if problem.Status != http.StatusTooManyRequests || problem.RetryAfter != 2*time.Second || problem.RequestID == "" ||
		!strings.Contains(err.Error(), problem.RequestID) {
		t.Errorf("the problem is %+v, and its text %q", problem, err)
	}
	if len(waits) != defaultRetries || slices.Min(waits) < 2*time.Second {
		t.Errorf("it was tried again after %s", waits)
	}
}

func TestTooLargeAndUndeclared(t *testing.T) {
	t.Parallel()
	b := ownAPI(t, "--max-payload-bytes=100", "--undeclared-queues=deny").bench(t)
	_, err := b.Enqueue(t.Context(), b.queue, NewMessage{Payload: make([]byte, 101)})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("101 bytes: %v", err)
	}
	if _, err := b.Enqueue(t.Context(), b.queue, text("x")); !errors.Is(err, ErrQueueNotDeclared) {
		t.Errorf("an undeclared queue: %v", err)
	}
	if sent := b.wire.count("/messages"); sent != 2 {
		t.Errorf("%d requests were sent", sent)
	}
}

func TestQueueNamesAreEscaped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"a/b", "a b", "a+b", "a%2Fb", "ü", "a?b#c", "...", "a;b=c", "//"} {
		b.queue = name
		stored := b.put(text(name))
		if got := b.take(ClaimOptions{}); got.ID != stored.ID || got.Queue != name {
			t.Errorf("%q: claimed %d from %q, want %d", name, got.ID, got.Queue, stored.ID)
		}
	}
	for _, name := range []string{"", ".", "..", "a\nb", strings.Repeat("x", 256)} {
		if _, err := b.Enqueue(t.Context(), name, text("x")); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
