package queueapi

import (
	"errors"
	"math"
	"net/http"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

type messagePageJSON struct {
	Messages []messageJSON `json:"messages"`
	// Count is the number of messages on this page.
	Count      int     `json:"count"`
	NextCursor *string `json:"next_cursor"`
}

// listMessages answers a page of a queue's messages, oldest first.
func (a *API) listMessages(c *call) error {
	q := params{values: c.query}
	list := store.ListParams{
		Status:  q.status(),
		AfterID: q.messageCursor(),
		Offset:  q.integer("offset", 0, math.MaxInt32, 0),
		Limit:   q.limit(),
	}
	if err := q.err(); err != nil {
		return err
	}
	page, err := a.backend.List(c.r.Context(), c.queue, list)
	if err != nil {
		return err
	}
	answer := messagePageJSON{Messages: make([]messageJSON, len(page.Messages)), Count: len(page.Messages)}
	for i := range page.Messages {
		answer.Messages[i] = newListedJSON(&page.Messages[i])
	}
	if page.NextAfterID != 0 {
		next := messageCursor(page.NextAfterID)
		answer.NextCursor = &next
	}
	return c.answer(http.StatusOK, answer)
}

// getMessage answers one message with its whole payload.
func (a *API) getMessage(c *call) error {
	m, err := a.backend.Get(c.r.Context(), c.queue, c.id)
	if errors.Is(err, store.ErrNotFound) {
		return a.whyNotFound(c)
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, newMessageJSON(&m))
}

func (q *params) status() message.Status {
	raw, ok := q.single("status")
	if status := message.Status(raw); !ok || status.Valid() {
		return status
	}
	q.refuse("status", codeInvalidValue, "must be one of 'pending', 'processing', 'succeeded', 'dead'")
	return ""
}
