package queueapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// idempotencyKey is the header that makes a request one that is accepted once.
const idempotencyKey = "Idempotency-Key"

// maxKeyBytes bounds keys and deduplication ids.
const maxKeyBytes = 255

// readKey takes the request's key out of its headers. It is never ignored: who sends one relies on it.
func (r *enqueueRequest) readKey(header http.Header) error {
	values := header.Values(idempotencyKey)
	if len(values) == 0 {
		return nil
	}
	refuse := func(code, text string) error {
		return problemInvalid(fieldError{Field: idempotencyKey, Code: code, Message: text})
	}
	r.key = values[0]
	switch {
	case len(values) > 1:
		return refuse(codeDuplicateField, "must be given only once")
	case r.key == "" || len(r.key) > maxKeyBytes || !isVisible(r.key):
		return refuse(codeInvalidValue, "must be 1 to 255 visible ASCII characters")
	case r.hasID && (r.isBatch || r.ids[0] != r.key):
		return refuse(codeInvalidValue, "must not be combined with deduplication_id: the header is of the whole request")
	}
	return nil
}

func isVisible(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// accept enqueues the messages and returns them with the status to answer: 201, or 200 when all were accepted before.
func (a *API) accept(ctx context.Context, queue string, r enqueueRequest) ([]message.Message, int, error) {
	if r.key == "" && !r.hasID {
		stored, err := a.backend.Enqueue(ctx, queue, r.messages)
		return stored, http.StatusCreated, err
	}
	accepted, err := a.backend.EnqueueOnce(ctx, queue, r.keyed())
	reused := new(store.KeyReusedError)
	if errors.As(err, &reused) {
		return nil, 0, r.keyReused(reused.Request)
	}
	var stored []message.Message
	status := http.StatusOK
	for _, part := range accepted {
		stored = append(stored, part.Messages...)
		if !part.Before {
			status = http.StatusCreated
		}
	}
	return stored, status, err
}

// keyed are the messages with their keys: all under one, or each under its own.
func (r *enqueueRequest) keyed() []store.KeyedMessages {
	if r.key != "" {
		return []store.KeyedMessages{{Key: r.key, Messages: r.messages}}
	}
	parts := make([]store.KeyedMessages, len(r.messages))
	for i := range r.messages {
		parts[i] = store.KeyedMessages{Key: r.ids[i], Messages: r.messages[i : i+1 : i+1]}
	}
	return parts
}

func (r *enqueueRequest) keyReused(part int) error {
	field := "deduplication_id"
	switch {
	case r.key != "":
		field = idempotencyKey
	case r.isBatch:
		field = "messages[" + strconv.Itoa(part) + "].deduplication_id"
	}
	return problemInvalid(fieldError{
		Field: field, Code: codeKeyReused,
		Message: "was used within the last 24 hours for another message; use a new one for each message",
	})
}
