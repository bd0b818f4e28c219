package queueapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"deadletter.dev/deadletter/internal/message"
)

// call is one request on its way through the API.
type call struct {
	w *responseRecorder
	r *http.Request
	// requestID is the caller's X-Request-Id, or ours.
	requestID string
	// pattern is the path of the route, for metrics and logs.
	pattern string
	// queue is the canonical name of the queue, if the path names one.
	queue string
	// id is the id of the message, if the path names one.
	id int64
	// endRead gives back the place of a read, once; it is nil for other calls.
	endRead func()
	// query holds the parameters of the URL.
	query url.Values
	// bodies is the budget of all bodies; held is what this one takes of it.
	bodies *budget
	held   *spender
	// body is the pooled buffer that holds the request's body, and sent are its bytes.
	body *bytes.Buffer
	sent []byte
	// rest is set when a failure report was too long to be kept whole.
	rest *tokenScan
}

// queueCall runs a route that reaches queues: what the path names must be possible names, the caller must be allowed,
// the body must have arrived, and there must be room.
func (a *API) queueCall(c *call, r route) error {
	if err := c.parsePath(); err != nil {
		return err
	}
	if !a.health.started() {
		return problemUnavailable("The server has not reached its database yet.")
	}
	if err := a.authorize(c, r.access); err != nil {
		return err
	}
	if err := c.parseQuery(r.params); err != nil {
		return err
	}
	if err := c.receive(r.body, a.limits); err != nil {
		return err
	}
	if r.method == http.MethodGet {
		if !a.reads.takeWithin(c.r.Context(), readWait) {
			return problemOverloaded()
		}
		c.endRead = sync.OnceFunc(a.reads.give)
		defer c.endRead()
	}
	if !a.slots.tryTake() {
		return problemOverloaded()
	}
	defer a.slots.give()
	return r.handle(a, c)
}

const (
	// readShare is the part of the database connections that reads may use at a time, as one in readShare. People's
	// lists and groups can take long, and must leave connections to the producers and workers.
	readShare = 4
	// readWait is how long a read waits for others to end.
	readWait = time.Second
)

// maxReads is how many reads may use the database at a time.
func maxReads(connections int32) int { return max(int(connections)/readShare, 1) }

// parsePath reads the queue and the id out of the path. A name that no queue can have names nothing: 404.
func (c *call) parsePath() error {
	if raw := c.r.PathValue("queue"); raw != "" {
		name, err := message.ParseQueueName(raw)
		if err != nil {
			return problemNotFound("There can be no such queue: " + err.Error() + ".")
		}
		c.queue = name
	}
	if raw := c.r.PathValue("id"); raw != "" {
		id, err := strconv.ParseInt(raw, 10, 64)
		if err != nil || id < 1 || strconv.FormatInt(id, 10) != raw {
			return problemNotFound("There is no message with this id: ids are positive integers.")
		}
		c.id = id
	}
	return nil
}

// storeTimeout bounds a call of the store that must not end with the client: the store's own statement timeout comes
// first.
const storeTimeout = 30 * time.Second

// detached is the context for changes: once asked for, a change is not given up half way because the client is gone,
// since its outcome would then be known to nobody.
func (c *call) detached() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.r.Context()), storeTimeout)
}

// clientGone reports that nobody waits for the answer any more.
func (c *call) clientGone() bool { return c.r.Context().Err() != nil }

// flush sends an answer that is small enough to wait in a buffer, and returns an error when that fails.
func (c *call) flush() error {
	if err := http.NewResponseController(c.w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errUndelivered, err)
	}
	return nil
}

// encode writes a body and a line end into an empty buffer.
func encode(buffer *bytes.Buffer, body any) error {
	text := buffer.AvailableBuffer()
	if answer, ok := body.(appender); ok {
		text = answer.appendJSON(text)
	} else {
		var err error
		if text, err = appendReflected(text, body); err != nil {
			return err
		}
	}
	*buffer = *bytes.NewBuffer(append(text, '\n')) // The memory that the text needed stays with the buffer.
	return nil
}

// answer writes a JSON response and returns an error when it could not be delivered.
func (c *call) answer(status int, body any) error {
	buffer := getBuffer()
	defer putBuffer(buffer)
	if err := encode(buffer, body); err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	// Header.Set would take memory for each of them.
	header, values := c.w.Header(), [...]string{"application/json", "no-store", strconv.Itoa(buffer.Len())}
	header["Content-Type"], header["Cache-Control"], header["Content-Length"] = values[:1:1], values[1:2:2], values[2:]
	if c.endRead != nil {
		c.endRead() // A client that is slow to take the answer does not keep others from the database.
	}
	c.w.WriteHeader(status)
	if _, err := c.w.Write(buffer.Bytes()); err != nil {
		return fmt.Errorf("%w: %w", errUndelivered, err)
	}
	return nil
}
