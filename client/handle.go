package client

import (
	"context"
	"errors"
)

// errAbandoned stands for what a handler would have returned that did not return.
var errAbandoned = errors.New("the handler did not return")

// handle has a message handled, and sees to it that its outcome is reported.
func (r *run) handle(base, handling context.Context, h *hold) {
	judge, admitted := r.gate.enter()
	if !admitted {
		r.giveBack(base, h) // What it depends on is down: another worker may have more luck.
		return
	}
	ctx, cancel := context.WithCancelCause(handling)
	defer cancel(nil)
	if !h.start(cancel) {
		judge(errNoVerdict)
		r.log.WarnContext(base, "a lease was lost before the message was started", "message_id", h.m.ID)
		h.end()
		return
	}
	ctx, span := r.c.startProcess(ctx, h.m)
	err := r.invoke(ctx, h.m)
	endSpan(span, err)

	isInterrupted := handling.Err() != nil && err != nil && !isPermanent(err)
	switch {
	case h.isLost():
		judge(errNoVerdict)
		r.log.WarnContext(base, "a lease was lost; the message is handled again", "message_id", h.m.ID)
		h.end()
	case isInterrupted:
		judge(errNoVerdict)
		r.giveBack(base, h)
	default:
		judge(err)
		r.acks.add(h, err)
	}
}

// invoke calls the handler in a goroutine of its own, so that neither a panic nor its end, nor a handler that does not
// return, takes anything else with it.
func (r *run) invoke(ctx context.Context, m *Message) error {
	result := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if returned {
				return
			}
			if value := recover(); value != nil {
				result <- &panicError{value: value, frames: capture(0)}
			} else {
				result <- errGoexit
			}
		}()
		err := r.Handler(ctx, m)
		returned = true
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-r.abandon:
	}
	select {
	case err := <-result:
		return err
	default:
		r.abandoned.Add(1)
		return errAbandoned
	}
}
