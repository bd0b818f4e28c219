package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/propagation"
)

// request is one call of the API.
type request struct {
	method string
	// path is escaped, and starts with a slash.
	path  string
	query url.Values
	// key is sent as Idempotency-Key.
	key string
	// body is sent as JSON, unless it is nil.
	body   any
	safety safety
	// slack is how much longer than usual the server may take, for long polls.
	slack time.Duration
}

// answer is what came back.
type answer struct {
	header http.Header
	// doubtful is set when an earlier try may have taken effect, so that the answer to this one may be about its doing.
	doubtful bool
}

// maxProblemBytes bounds what is read of an answer that is none of success.
const maxProblemBytes = 1 << 20

// do sends a request, as often as its safety allows, and decodes the answer into out.
func (c *Client) do(ctx context.Context, r request, out any) (answer, error) {
	body, err := encode(r.body)
	if err != nil {
		return answer{}, err
	}
	var a answer
	for number := 1; ; number++ {
		var failed try
		a.header, failed = c.try(ctx, r, body, out)
		if failed.ok() {
			return a, nil
		}
		doubtful := r.safety != readOnly && !failed.changedNothing()
		if number > c.retries || ctx.Err() != nil || !failed.repeat(r.safety) || !c.waited(ctx, failed, number) {
			return a, failed.final(doubtful || a.doubtful && !failed.decides())
		}
		a.doubtful = a.doubtful || doubtful
	}
}

// waited waits until the next try is due. It returns false when there is no use in one.
func (c *Client) waited(ctx context.Context, failed try, number int) bool {
	wait, worth := failed.wait(number, c.random())
	return worth && enoughTime(ctx, c.now(), wait) && c.pause(ctx, wait) == nil
}

// try sends a request once.
func (c *Client) try(ctx context.Context, r request, body []byte, out any) (http.Header, try) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+r.slack)
	defer cancel()
	sent, err := c.newRequest(ctx, r, body)
	if err != nil {
		return nil, try{err: err, phase: unsent}
	}
	response, err := c.http.Do(sent)
	if err != nil {
		return nil, try{err: withoutURL(err)}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		// Of a body that breaks off, the status says enough.
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxProblemBytes))
		return response.Header, try{problem: newError(response.StatusCode, response.Header, text, c.now())}
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return response.Header, try{err: fmt.Errorf("read the answer: %w", err)}
	}
	if err := json.Unmarshal(text, out); err != nil {
		return response.Header, try{err: fmt.Errorf("the answer is not the API's: %w", err), phase: answered}
	}
	return response.Header, try{}
}

func (c *Client) newRequest(ctx context.Context, r request, body []byte) (*http.Request, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, withoutURL(err)
	}
	sent.Header.Set("Accept", "application/json, application/problem+json")
	sent.Header.Set("User-Agent", c.userAgent)
	if body != nil {
		sent.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		sent.Header.Set("Idempotency-Key", r.key)
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return nil, fmt.Errorf("no token: %w", err)
		}
		sent.Header.Set("Authorization", "Bearer "+token)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(sent.Header))
	return sent, nil
}

// encode writes JSON without the escapes that only web pages need.
func encode(body any) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return buffer.Bytes(), nil
}

// withoutURL drops what the caller knows from an error of net/http.
func withoutURL(err error) error {
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// queuePath is a path below a queue. Parts are escaped already.
func queuePath(queue, rest string) string { return "/queues/" + url.PathEscape(queue) + rest }

// messagePath is a path below a message.
func messagePath(queue string, id int64, rest string) string {
	return queuePath(queue, "/messages/"+strconv.FormatInt(id, 10)+rest)
}

// maxSeconds is above every duration that the API takes, and can be converted without overflow.
const maxSeconds = int64(1) << 32

// seconds rounds up to whole seconds, so that nothing is due earlier than asked for.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}
