package client

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// ClaimOptions say what to claim. Their zero value claims one message, if one is ready now.
type ClaimOptions struct {
	// Max is the most messages to claim, from 1 to 1,000; 0 means 1. Fewer come when fewer are ready, or when their
	// payloads come to more than 4 MiB.
	Max int
	// Wait is how long to wait for a message when none is ready, at most 20 s.
	Wait time.Duration
	// VisibilityTimeout is how long to hold the messages, from 1 s to 12 h; 0 leaves it to the queue.
	VisibilityTimeout time.Duration
	// Consumer says who works; nil means what [WithConsumer] says.
	Consumer *Consumer
}

// claimJSON is a claim as the API takes it.
type claimJSON struct {
	Max                      int       `json:"max"`
	WaitSeconds              int64     `json:"wait_seconds,omitempty"`
	VisibilityTimeoutSeconds int64     `json:"visibility_timeout_seconds,omitempty"`
	Consumer                 *Consumer `json:"consumer,omitempty"`
}

// claimed is what a claim got.
type claimed struct {
	Messages []*Message `json:"messages"`
	// retryAfter is for how long the queue's circuit breaker hands out nothing.
	retryAfter time.Duration
}

// Claim leases the next messages: those of the highest priority, and of these the ones that have been ready longest. It
// returns none when none is ready, when the queue is paused or unknown, or when the server shuts down; a caller who
// claims in a loop should pause then.
//
// Each message must be settled by [Client.Succeed] or [Client.Fail] before its lease ends, be given back by
// [Client.Release], or be kept by [Client.Extend]; otherwise it counts as failed with category TIMEOUT. A claim is not
// repeated when its answer is lost: what was claimed then comes back when its lease ends.
func (c *Client) Claim(ctx context.Context, queue string, options ClaimOptions) ([]*Message, error) {
	got, err := c.claim(ctx, queue, options)
	if err != nil {
		return nil, fmt.Errorf("claim from %q: %w", queue, err)
	}
	return got.Messages, nil
}

func (c *Client) claim(ctx context.Context, queue string, options ClaimOptions) (claimed, error) {
	body := claimJSON{
		Max: max(options.Max, 1), WaitSeconds: seconds(options.Wait),
		VisibilityTimeoutSeconds: seconds(options.VisibilityTimeout), Consumer: options.Consumer,
	}
	if body.Consumer == nil {
		body.Consumer = &c.consumer
	}
	var got claimed
	answer, err := c.do(ctx, request{
		method: http.MethodPost, path: queuePath(queue, "/claim"), body: body, safety: once, slack: options.Wait,
	}, &got)
	got.retryAfter = retryAfter(answer.header, c.now())
	return got, err
}
