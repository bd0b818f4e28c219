package queueapi

import (
	"errors"
	"math"
	"net/http"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

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
	answer := pageAnswer{messages: page.Messages}
	if page.NextAfterID != 0 {
		answer.next = messageCursor(page.NextAfterID)
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
	return c.answer(http.StatusOK, messageAnswer{&m})
}

func (q *params) status() message.Status {
	raw, ok := q.single("status")
	if status := message.Status(raw); !ok || status.Valid() {
		return status
	}
	q.refuse("status", codeInvalidValue, "must be one of 'pending', 'processing', 'succeeded', 'dead'")
	return ""
}
