package queueapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// errUndelivered marks an answer that did not reach the client.
var errUndelivered = errors.New("answer not delivered")

// statusClientGone is what logs and metrics show for a request whose client did not wait for the answer.
const statusClientGone = 499

// responseRecorder remembers what was answered.
type responseRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *responseRecorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *responseRecorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p) //nolint:wrapcheck // a transparent wrapper
}

// Unwrap lets http.ResponseController reach the connection.
func (r *responseRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// wrap turns a handler into an http.HandlerFunc: request id, problems for errors and panics, metrics and log.
func (a *API) wrap(pattern string, handle func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := a.now()
		c := &call{
			w: &responseRecorder{ResponseWriter: w}, r: r, pattern: pattern, requestID: requestID(r.Header), bodies: a.bodies,
		}
		w.Header()["X-Request-Id"] = []string{c.requestID}
		if a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		a.metrics.inFlight.Inc()
		defer a.metrics.inFlight.Dec()
		defer c.dropBody()
		err := a.protect(c, handle)
		status := c.w.status
		if errors.Is(err, errUndelivered) || (status == 0 && c.clientGone()) {
			status = statusClientGone
		}
		elapsed := a.now().Sub(start)
		a.metrics.observe(pattern, r.Method, status, elapsed)
		a.logCall(r.Context(), c, status, elapsed, err)
	}
}

// protect runs the handler and answers with a problem when it fails or panics.
func (a *API) protect(c *call, handle func(*call) error) (err error) {
	defer func() {
		recovered := recover()
		if recovered == nil {
			return
		}
		if recovered == http.ErrAbortHandler { //nolint:errorlint,err113 // compared as net/http does
			panic(recovered)
		}
		err = &panicError{value: recovered, stack: debug.Stack()}
		c.fail(err)
	}()
	if err = handle(c); err != nil {
		c.fail(err)
	}
	return err
}

// panicError carries a panic to the log. Its stack never leaves the server.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return "panic in handler" }

// fail answers with the problem that err is or amounts to, unless an answer has been started.
func (c *call) fail(err error) {
	if c.w.status != 0 || errors.Is(err, errUndelivered) {
		return
	}
	p := *problemOf(err)
	p.RequestID = c.requestID
	buffer := new(bytes.Buffer)
	_ = encode(buffer, p) // It has only strings and integers.
	p.writeHeaders(c.w.Header())
	c.w.Header().Set("Content-Length", strconv.Itoa(buffer.Len()))
	c.w.WriteHeader(p.Status)
	_, _ = c.w.Write(buffer.Bytes()) // Nobody is left to tell.
}

// problemOf translates an error of a handler or of the store.
func problemOf(err error) *problem {
	conflict := func(slug, title, detail string) *problem { return newProblem(http.StatusConflict, slug, title, detail) }
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, store.ErrNotFound):
		return problemNotFound("There is no message with this id in this queue.")
	case errors.Is(err, store.ErrStaleLease):
		return conflict("stale-lease", "The lease is no longer yours",
			"The lease_token is not the current lease's: it expired or was given back. Nothing was changed. Drop this work.")
	case errors.Is(err, store.ErrNotProcessing):
		return conflict("not-processing", "The message is not being processed",
			"No lease is current: the message was not claimed, is settled already, or its lease expired. Nothing was changed.")
	case errors.Is(err, store.ErrNotDead):
		return conflict("not-dead", "The message is not dead",
			"Only a dead letter can be replayed or discarded. Nothing was changed.")
	case errors.Is(err, store.ErrInReplay):
		return conflict("in-replay", "The dead letter is part of a running replay",
			"A Replay has selected it and will put it back to work. Nothing was changed. Cancel the Replay or wait for its end.")
	case errors.Is(err, store.ErrClosedQueue):
		return conflict("queue-closed", "The queue is being deleted",
			"It takes no messages any more. Nothing was changed. Try again when its deletion is over, or send elsewhere.")
	case errors.Is(err, store.ErrQueueFull):
		return problemQueueFull()
	case errors.Is(err, store.ErrNoLongerKept):
		return conflict("no-longer-kept", "The message was accepted before",
			"A message was accepted under this key before, and it is no longer kept. Nothing was changed.")
	case errors.Is(err, store.ErrUndeclaredQueue):
		return newProblem(http.StatusNotFound, "queue-not-declared", "The queue is not declared",
			"This Broker takes messages only for queues that a Queue resource declares.")
	case store.IsUnsent(err):
		return problemUnavailable("The database cannot be reached. Nothing was changed. Retry.")
	case errors.Is(err, context.Canceled), store.IsUnavailable(err):
		return problemUnavailable("The database did not answer in time. Whether a change was made is not known. Retry.")
	default:
		return problemInternal()
	}
}

// maxRequestID bounds what is taken over from the caller into logs.
const maxRequestID = 128

// requestID returns the caller's X-Request-Id if it is fit to be logged, or a new one.
func requestID(header http.Header) string {
	id := header.Get("X-Request-ID")
	if id == "" || len(id) > maxRequestID {
		return rand.Text()
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return rand.Text()
		}
	}
	return id
}

// logCall writes one line per request: failures of the server as errors, what it cannot do now as warnings, all else
// for debugging. Payloads, headers, error texts of workers and tokens are never in it.
func (a *API) logCall(ctx context.Context, c *call, status int, elapsed time.Duration, err error) {
	level := slog.LevelDebug
	switch {
	case status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	if !a.logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", c.requestID),
		slog.String("method", c.r.Method),
		slog.String("route", c.pattern),
		slog.String("queue", c.queue),
		slog.Int("status", status),
		slog.Duration("duration", elapsed),
	}
	if c.id != 0 {
		attrs = append(attrs, slog.Int64("message_id", c.id))
	}
	attrs = append(attrs, traceAttrs(c.r.Header)...)
	panicked := new(panicError)
	switch {
	case errors.As(err, &panicked):
		attrs = append(attrs, slog.Any("panic", panicked.value), slog.String("stack", string(panicked.stack)))
	case err != nil:
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	a.logger.LogAttrs(ctx, level, "request", attrs...)
}
