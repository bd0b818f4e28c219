package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Error is a refusal or a failure that the API answered with: an RFC 9457 problem. Every error of a [Client] that is
// about an answer wraps one; match it with errors.As, or its kind with errors.Is and one of the errors below:
//
//	if errors.Is(err, client.ErrQueueFull) { ... }
type Error struct {
	// Type is the kind of the problem, a URI that never changes. It is empty when the answer was no problem, such as
	// one of a gateway between.
	Type string `json:"type"`
	// Title says in a few words what Type means.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail says what is the matter this time. It never repeats payloads.
	Detail string `json:"detail"`
	// Errors name the fields that are not valid, if that is the problem.
	Errors []FieldError `json:"errors,omitempty"`
	// RequestID finds the request in the server's log.
	RequestID string `json:"request_id,omitempty"`
	// RetryAfter is for how long the server asked not to be called again; 0 when it did not ask.
	RetryAfter time.Duration `json:"-"`
}

// FieldError is one thing that is wrong with one field of a request.
type FieldError struct {
	// Field is a path such as messages[3].payload, or a query parameter.
	Field string `json:"field"`
	// Code is a word such as too_long.
	Code string `json:"code"`
	// Message says what to change.
	Message string `json:"message"`
}

// The kinds of problems, for errors.Is.
var (
	// ErrBodyUnreadable: the request ended early. Nothing was changed.
	ErrBodyUnreadable error = kindError("body-unreadable")
	// ErrForbidden: RBAC does not let the caller do this to this queue.
	ErrForbidden error = kindError("forbidden")
	// ErrInReplay: a running Replay has selected the dead letter.
	ErrInReplay error = kindError("in-replay")
	// ErrInternal: the server failed. Whether a change was made is not known.
	ErrInternal error = kindError("internal")
	// ErrInvalid: something in the request is not valid; the Errors of the [Error] name it.
	ErrInvalid error = kindError("invalid-request")
	// ErrMethodNotAllowed: the path does not answer this method; the server is older than this client.
	ErrMethodNotAllowed error = kindError("method-not-allowed")
	// ErrNoLongerKept: the message was accepted under this key before, and is gone: worked off, or purged. Do not send
	// it again.
	ErrNoLongerKept error = kindError("no-longer-kept")
	// ErrNotDead: the message is not a dead letter.
	ErrNotDead error = kindError("not-dead")
	// ErrNotFound: there is no such queue, message or dead letter.
	ErrNotFound error = kindError("not-found")
	// ErrNotProcessing: nobody holds the message: its lease is over.
	ErrNotProcessing error = kindError("not-processing")
	// ErrOverloaded: the server has as many requests as it may. Nothing was changed.
	ErrOverloaded error = kindError("overloaded")
	// ErrQueueClosed: the queue is being deleted.
	ErrQueueClosed error = kindError("queue-closed")
	// ErrQueueFull: the queue has no room for the message. Nothing was changed.
	ErrQueueFull error = kindError("queue-full")
	// ErrQueueNotDeclared: the Broker takes messages for declared queues only.
	ErrQueueNotDeclared error = kindError("queue-not-declared")
	// ErrRequestTimeout: the request was too slow to arrive. Nothing was changed.
	ErrRequestTimeout error = kindError("request-timeout")
	// ErrStaleLease: somebody else holds the message now: the lease is over.
	ErrStaleLease error = kindError("stale-lease")
	// ErrTooLarge: a payload or the whole request is above its limit.
	ErrTooLarge error = kindError("too-large")
	// ErrUnauthenticated: the token is missing or not valid.
	ErrUnauthenticated error = kindError("unauthenticated")
	// ErrUnavailable: the database does not answer, or the server drains. Whether a change was made is not known.
	ErrUnavailable error = kindError("unavailable")
	// ErrUnsupportedMediaType: the server does not read this content type; the server is older than this client.
	ErrUnsupportedMediaType error = kindError("unsupported-media-type")
)

// ErrUnknownOutcome is wrapped by the error of a change that may or may not have been made: the connection broke after
// the request was sent, the server answered 5xx, or the answers to repeated tries contradict each other. An error that
// does not match it means that nothing was changed.
var ErrUnknownOutcome = errors.New("it is not known whether the change was made")

// problemBase starts the type of every problem of the API.
const problemBase = "https://deadletter.dev/problems/"

// kindError is the last part of a problem's type.
type kindError string

// Error is the name of the kind.
func (k kindError) Error() string { return string(k) }

// Error says what happened, and how to find it in the server's log.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d", e.Status)
	for _, part := range []string{e.Title, e.Detail} {
		if part != "" {
			text.WriteString(": " + strings.TrimSuffix(part, "."))
		}
	}
	if e.RequestID != "" {
		text.WriteString(" (request " + e.RequestID + ")")
	}
	return text.String()
}

// Is matches the kind of the problem.
func (e *Error) Is(target error) bool {
	kind, ok := target.(kindError)
	return ok && kind == e.kind()
}

// kind is the kind of the problem; an answer that is none has the kind that its status can only mean.
func (e *Error) kind() kindError {
	if e.Type != "" {
		return kindError(strings.TrimPrefix(e.Type, problemBase))
	}
	switch e.Status {
	case http.StatusUnauthorized:
		return kindError("unauthenticated")
	case http.StatusForbidden:
		return kindError("forbidden")
	case http.StatusRequestEntityTooLarge:
		return kindError("too-large")
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return kindError("unavailable")
	default:
		return ""
	}
}

// newError reads an answer that is none of success.
func newError(status int, header http.Header, body []byte, now time.Time) *Error {
	problem := new(Error)
	if json.Unmarshal(body, problem) != nil || problem.Type == "" {
		problem = &Error{
			Title:  http.StatusText(status),
			Detail: "the answer is not the API's; is something between, or the base URL another one?",
		}
	}
	problem.Status = status
	problem.RetryAfter = retryAfter(header, now)
	if problem.RequestID == "" {
		problem.RequestID = header.Get("X-Request-ID")
	}
	return problem
}
