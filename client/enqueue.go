package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// NewMessage is a message to enqueue. Only Payload is required.
type NewMessage struct {
	// Payload is 1 byte to 1 MiB, unless the server says otherwise; any bytes.
	Payload []byte
	// Headers travel with the payload: at most 100, together 64 KiB.
	Headers []Header
	// MaxRetries is at how many failures the message is dead, from 1 to 10; 0 leaves it to the queue.
	MaxRetries int
	// Delay holds the message back, for at most 90 days.
	Delay time.Duration
	// Priority is from 0 to 3: the ready messages of the highest priority are claimed first.
	Priority int
	// GroupKey orders the message among those of its queue with the same key: one of them is handed out at a time. At
	// most 255 bytes; empty for none.
	GroupKey string
	// TTL is how long the message may wait to be handled, from when it is first ready, at most a year; 0 leaves it to the
	// queue. A message whose time is up is a dead letter of category EXPIRED.
	TTL time.Duration
	// DeduplicationID names the message, so that it is accepted once within 24 hours however often it is sent. At most
	// 255 bytes; empty for none.
	DeduplicationID string
}

// newMessageJSON is a new message as the API takes it.
type newMessageJSON struct {
	textPayload

	Headers         []Header `json:"headers,omitempty"`
	MaxRetries      int      `json:"max_retries,omitempty"`
	DelaySeconds    int64    `json:"delay_seconds,omitempty"`
	Priority        int      `json:"priority,omitempty"`
	GroupKey        string   `json:"group_key,omitempty"`
	TTLSeconds      int64    `json:"ttl_seconds,omitempty"`
	DeduplicationID string   `json:"deduplication_id,omitempty"`
}

func (m *NewMessage) wire() newMessageJSON {
	payload := m.Payload
	if payload == nil {
		payload = []byte{} // It is for the server to refuse.
	}
	return newMessageJSON{
		textPayload: encodePayload(payload), Headers: m.Headers, MaxRetries: m.MaxRetries,
		DelaySeconds: seconds(m.Delay), Priority: m.Priority, GroupKey: m.GroupKey, TTLSeconds: seconds(m.TTL),
		DeduplicationID: m.DeduplicationID,
	}
}

// EnqueueOption changes how messages are enqueued.
type EnqueueOption func(*enqueueOptions)

type enqueueOptions struct {
	key   string
	noKey bool
}

// IdempotencyKey makes the whole call one that is accepted once within 24 hours: 1 to 255 visible ASCII characters, the
// same for each attempt of the program at one thing. Without it a call is safe against its own retries only, not
// against being made again after the program was restarted. It cannot be combined with deduplication ids.
func IdempotencyKey(key string) EnqueueOption {
	return func(options *enqueueOptions) { options.key = key }
}

// NoKey has no key made up for the call, which spares the server remembering it: single messages are then accepted
// several times as fast. The call is repeated only when it is certain that nothing was stored, and returns
// [ErrUnknownOutcome] otherwise.
func NoKey() EnqueueOption {
	return func(options *enqueueOptions) { options.noKey = true }
}

// Enqueue puts a message into a queue, which comes into being if it was not there, and returns it as it is stored. What
// was accepted before under the same key is returned as it is now.
//
// Without a key or a deduplication id the call makes a key up, so that its retries never store the message twice.
// Errors include [ErrQueueFull], [ErrTooLarge], [ErrInvalid], [ErrQueueNotDeclared], [ErrNoLongerKept] and
// [ErrUnknownOutcome].
func (c *Client) Enqueue(ctx context.Context, queue string, m NewMessage, options ...EnqueueOption) (*Message, error) {
	ctx, span := c.startSend(ctx, queue, 1)
	stored := new(Message)
	traced := []NewMessage{m}
	injectAll(ctx, traced)
	r := c.enqueueRequest(queue, traced, options)
	r.body = traced[0].wire()
	_, err := c.do(ctx, r, stored)
	if err != nil {
		err = fmt.Errorf("enqueue to %q: %w", queue, err)
		stored = nil
	}
	endSend(span, stored, err)
	return stored, err
}

// EnqueueBatch enqueues up to 1,000 messages, all or nothing, and returns them in the same order. Otherwise it is as
// [Client.Enqueue].
func (c *Client) EnqueueBatch(
	ctx context.Context, queue string, messages []NewMessage, options ...EnqueueOption,
) ([]*Message, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	ctx, span := c.startSend(ctx, queue, len(messages))
	traced := slices.Clone(messages)
	injectAll(ctx, traced)
	r := c.enqueueRequest(queue, traced, options)
	body := make([]newMessageJSON, len(traced))
	for i := range traced {
		body[i] = traced[i].wire()
	}
	r.body = map[string]any{"messages": body}
	var stored struct {
		Messages []*Message `json:"messages"`
	}
	_, err := c.do(ctx, r, &stored)
	if err != nil {
		err = fmt.Errorf("enqueue %d messages to %q: %w", len(messages), queue, err)
	}
	endSend(span, nil, err)
	return stored.Messages, err
}

// enqueueRequest is the request without its body. It gives messages an id where others have one: a request may have a
// key or ids, and what has neither would be stored once more by each repetition.
func (c *Client) enqueueRequest(queue string, messages []NewMessage, options []EnqueueOption) request {
	var chosen enqueueOptions
	for _, apply := range options {
		apply(&chosen)
	}
	r := request{
		method: http.MethodPost, path: queuePath(queue, "/messages"), key: chosen.key, safety: repeatable,
	}
	named := 0
	for i := range messages {
		if messages[i].DeduplicationID != "" {
			named++
		}
	}
	switch {
	case r.key != "" || named == len(messages):
	case chosen.noKey || c.retries == 0:
		r.safety = once
	case named == 0:
		r.key = rand.Text()
	default:
		for i := range messages {
			if messages[i].DeduplicationID == "" {
				messages[i].DeduplicationID = rand.Text()
			}
		}
	}
	return r
}
