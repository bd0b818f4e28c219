package queueapi

import (
	"net/http"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
	"deadletter.dev/deadletter/internal/store"
)

// succeed finishes one message.
func (a *API) succeed(c *call) error {
	lease, err := a.leaseBody(c, nil)
	if err != nil {
		return err
	}
	ctx, cancel := c.detached()
	defer cancel()
	settled, err := a.backend.Succeed(ctx, c.queue, []store.LeaseRef{lease})
	if err != nil {
		return err
	}
	return a.answerSettled(c, &settled[0])
}

// fail records one failure.
func (a *API) fail(c *call) error {
	if err := checkContentEncoding(c.r.Header); err != nil {
		return err // It might hold a lease token.
	}
	failed, err := decodeReport(c.sent, c.rest)
	if err == nil {
		err = a.checkToken(failed.Token)
	}
	if err != nil {
		return err
	}
	failed.ID = c.id
	ctx, cancel := c.detached()
	defer cancel()
	settled, err := a.backend.Fail(ctx, c.queue, []store.FailedLease{failed})
	if err != nil {
		return err
	}
	return a.answerSettled(c, &settled[0])
}

func (a *API) answerSettled(c *call, settled *store.Settled) error {
	if settled.Err != nil {
		return settled.Err
	}
	a.wakeFor(c.queue, []message.Message{settled.Message})
	a.wakeNext(c.queue, *settled)
	return c.answer(http.StatusOK, messageAnswer{&settled.Message})
}

// extend lets a lease run on.
func (a *API) extend(c *call) error {
	var by time.Duration
	lease, err := a.leaseBody(c, func(in *input, name string, p *place, v strictjson.Value) bool {
		if name == "seconds" {
			by = time.Duration(in.integer(p, v, 1, maxVisibilitySeconds)) * time.Second
		}
		return name == "seconds"
	}, "seconds")
	if err != nil {
		return err
	}
	ctx, cancel := c.detached()
	defer cancel()
	extended, err := a.backend.Extend(ctx, c.queue, lease, by)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, messageAnswer{&extended})
}

// release gives a message back at no cost.
func (a *API) release(c *call) error {
	var delay time.Duration
	lease, err := a.leaseBody(c, func(in *input, name string, p *place, v strictjson.Value) bool {
		if name == "delay_seconds" {
			delay = time.Duration(in.integer(p, v, 0, maxDelaySeconds)) * time.Second
		}
		return name == "delay_seconds"
	})
	if err != nil {
		return err
	}
	ctx, cancel := c.detached()
	defer cancel()
	released, err := a.backend.Release(ctx, c.queue, lease, delay)
	if err != nil {
		return err
	}
	a.wakeFor(c.queue, []message.Message{released})
	return c.answer(http.StatusOK, messageAnswer{&released})
}

// replay puts one dead letter back to work.
func (a *API) replay(c *call) error {
	if err := c.emptyBody(); err != nil {
		return err
	}
	ctx, cancel := c.detached()
	defer cancel()
	replayed, err := a.backend.Replay(ctx, c.queue, c.id)
	if err != nil {
		return err
	}
	a.wakeFor(c.queue, []message.Message{replayed})
	return c.answer(http.StatusOK, messageAnswer{&replayed})
}

// leaseField reads one more member of a body that may carry a lease token, and reports whether it knows the name.
type leaseField func(in *input, name string, p *place, v strictjson.Value) bool

// leaseBody reads a body that may carry a lease token, and the members that field knows.
func (a *API) leaseBody(c *call, field leaseField, required ...string) (store.LeaseRef, error) {
	body, err := c.strictBody()
	if err != nil {
		return store.LeaseRef{}, err
	}
	var (
		in    input
		token string
		given = map[string]bool{}
	)
	in.object(nil, body, func(name string, p *place, v strictjson.Value) bool {
		given[name] = true
		if name == "lease_token" {
			token = in.leaseToken(p, v)
			return true
		}
		return field != nil && field(&in, name, p, v)
	})
	for _, name := range required {
		if body.Kind() == strictjson.Object {
			in.require(nil, name, given[name])
		}
	}
	if err := in.err(); err != nil {
		return store.LeaseRef{}, err
	}
	return store.LeaseRef{ID: c.id, Token: token}, a.checkToken(token)
}

// checkToken refuses a call without a token where the server demands one.
func (a *API) checkToken(token string) error {
	if a.requireToken && token == "" {
		return problemInvalid(fieldError{
			Field: "lease_token", Code: codeRequired, Message: "must be given: this server acts on no lease without its token",
		})
	}
	return nil
}
