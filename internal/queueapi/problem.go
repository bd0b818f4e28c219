package queueapi

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// problemBase starts the type of every problem. The types are part of the API: their names never change.
const problemBase = "https://deadletter.dev/problems/"

const problemContentType = "application/problem+json"

// queueFullWait is when a producer should try a full queue again.
const queueFullWait = 2 * time.Second

// problem is an RFC 9457 problem: the only shape in which this API refuses or fails.
type problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []fieldError `json:"errors,omitempty"`
	// RequestID lets a caller's report be matched with the server's log.
	RequestID string `json:"request_id,omitempty"`

	// retryAfter is sent as Retry-After, when set.
	retryAfter time.Duration
	// headers are name, value pairs sent along.
	headers []string
}

// fieldError is one thing wrong with one field. Message says how to fix it and never repeats the value.
type fieldError struct {
	Field   string `json:"field"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error makes a problem an error, so that handlers can return it.
func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// The codes of field errors; part of the API.
const (
	codeRequired        = "required"
	codeWrongType       = "wrong_type"
	codeOutOfRange      = "out_of_range"
	codeTooLong         = "too_long"
	codeTooMany         = "too_many"
	codeUnknownField    = "unknown_field"
	codeDuplicateField  = "duplicate_field"
	codeInvalidValue    = "invalid_value"
	codeInvalidEncoding = "invalid_encoding"
	codeMalformedJSON   = "malformed_json"
	codeTooLarge        = "too_large"
	codeMalformedQuery  = "malformed_query"
	codeInvalidCursor   = "invalid_cursor"
	codeKeyReused       = "key_reused"
)

func newProblem(status int, slug, title, detail string) *problem {
	return &problem{Type: problemBase + slug, Title: title, Status: status, Detail: detail}
}

func problemInvalid(errs ...fieldError) *problem {
	p := newProblem(http.StatusUnprocessableEntity, "invalid-request", "The request is not valid", "")
	p.Errors = errs
	p.Detail = fmt.Sprintf("%s: %s.", errs[0].Field, errs[0].Message)
	if more := len(errs) - 1; more > 0 {
		p.Detail += fmt.Sprintf(" There are %d more errors.", more)
	}
	return p
}

func problemNotFound(detail string) *problem {
	return newProblem(http.StatusNotFound, "not-found", "Not found", detail)
}

func problemMethodNotAllowed(method, allow string) *problem {
	p := newProblem(http.StatusMethodNotAllowed, "method-not-allowed", "Method not allowed",
		fmt.Sprintf("This path does not answer %s; it answers %s.", quoteShort(method), allow))
	p.headers = []string{"Allow", allow}
	return p
}

func problemUnsupportedMediaType(detail string) *problem {
	return newProblem(http.StatusUnsupportedMediaType, "unsupported-media-type", "Unsupported media type", detail)
}

func problemTooLarge(errs ...fieldError) *problem {
	p := newProblem(http.StatusRequestEntityTooLarge, "too-large", "The request is too large", errs[0].Message+".")
	p.Errors = errs
	return p
}

func problemBodyUnreadable() *problem {
	return newProblem(http.StatusBadRequest, "body-unreadable", "The request body could not be read",
		"The connection ended before the whole body had arrived, or the body was not framed as HTTP demands.")
}

func problemRequestTimeout() *problem {
	p := newProblem(http.StatusRequestTimeout, "request-timeout", "The request took too long to arrive",
		"A body must be there in a minute, and one of more than 4 KiB must keep coming: 256 KiB of it, or the rest, in "+
			"ten seconds.")
	p.headers = []string{"Connection", "close"}
	return p
}

func problemUnavailable(detail string) *problem {
	p := newProblem(http.StatusServiceUnavailable, "unavailable", "The service is not available", detail)
	p.retryAfter = time.Second
	return p
}

func problemOverloaded() *problem {
	p := newProblem(http.StatusServiceUnavailable, "overloaded", "Too many requests at once",
		"The server handles as many requests as it may. Retry after a moment.")
	p.retryAfter = time.Second
	return p
}

func problemQueueFull() *problem {
	p := newProblem(http.StatusTooManyRequests, "queue-full", "The queue is full",
		"It has no room for this beside what is pending and processing. Nothing was stored; a batch fits as a whole or not "+
			"at all. Try again when workers have caught up.")
	p.retryAfter = queueFullWait
	return p
}

func problemInternal() *problem {
	return newProblem(http.StatusInternalServerError, "internal", "Internal error",
		"The server failed. The cause is in its log under this request id.")
}

func (p *problem) writeHeaders(header http.Header) {
	header.Set("Content-Type", problemContentType)
	header.Set("Cache-Control", "no-store")
	for i := 0; i+1 < len(p.headers); i += 2 {
		header.Set(p.headers[i], p.headers[i+1])
	}
	if p.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
}

// maxQuoted bounds what a problem repeats of a name that the caller chose.
const maxQuoted = 64

// quoteShort quotes a name that the caller chose (a field, a method, a queue; never a value), cut and escaped.
func quoteShort(name string) string {
	if len(name) > maxQuoted {
		name = name[:maxQuoted] + "…"
	}
	return strconv.QuoteToGraphic(name)
}
