package queueapi

import (
	"net/http"

	"deadletter.dev/deadletter/internal/queueapi/strictjson"
)

// discard removes one dead letter.
func (a *API) discard(c *call) error {
	if err := c.emptyBody(); err != nil {
		return err
	}
	ctx, cancel := c.detached()
	defer cancel()
	gone, err := a.backend.Discard(ctx, c.queue, c.id)
	if err != nil {
		return err
	}
	a.logger.Info("dead letter discarded", "queue", c.queue, "message", c.id, "request_id", c.requestID)
	return c.answer(http.StatusOK, messageAnswer{&gone})
}

// emptyBody refuses a body that says anything.
func (c *call) emptyBody() error {
	body, err := c.strictBody()
	if err != nil {
		return err
	}
	var in input
	in.object(nil, body, func(string, *place, strictjson.Value) bool { return false })
	return in.err()
}
