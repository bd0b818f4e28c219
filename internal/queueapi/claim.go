package queueapi

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
	"deadletter.dev/deadletter/internal/store"
)

// claimRequest is the body of a claim.
type claimRequest struct {
	params store.ClaimParams
	// plural is set when max was given: the answer then has messages instead of message.
	plural bool
	wait   time.Duration
}

// claimAnswer are the messages that a claim got: a list if it gave a max, else one or null.
type claimAnswer struct {
	messages []message.Message
	plural   bool
}

func (a claimAnswer) appendJSON(b []byte) []byte {
	b = strconv.AppendBool(append(b, `{"claimed":`...), len(a.messages) > 0)
	switch {
	case a.plural:
		b = appendMessages(append(b, `,"messages":`...), a.messages, claimedView)
	case len(a.messages) > 0:
		b = appendMessage(append(b, `,"message":`...), &a.messages[0], claimedView)
	default:
		b = appendNullMember(b, `,"message":`)
	}
	return append(b, '}')
}

// claim leases messages, and waits for some if asked to.
func (a *API) claim(c *call) error {
	body, err := c.strictBody()
	if err != nil {
		return err
	}
	request, err := decodeClaim(body)
	if err != nil {
		return err
	}
	c.dropBody() // It must not be held through the wait.
	messages, err := a.claimOrWait(c, request)
	if err != nil {
		return err
	}
	if c.clientGone() {
		a.giveBack(c, messages)
		return errUndelivered
	}
	if len(messages) == 0 {
		a.sayWhenToRetry(c)
	}
	err = c.answer(http.StatusOK, claimAnswer{messages, request.plural})
	if err == nil {
		err = c.flush()
	}
	if errors.Is(err, errUndelivered) {
		a.giveBack(c, messages)
	}
	return err
}

// sayWhenToRetry tells a claim that got nothing for how long the queue's circuit breaker keeps it so. Not to know is no
// reason to fail it.
func (a *API) sayWhenToRetry(c *call) {
	ctx, cancel := c.detached()
	defer cancel()
	if wait, err := a.backend.RetryAfter(ctx, c.queue); err == nil && wait > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
}

func decodeClaim(body strictjson.Value) (claimRequest, error) {
	var in input
	request := claimRequest{params: store.ClaimParams{Max: 1}}
	in.object(nil, body, func(name string, p *place, v strictjson.Value) bool {
		switch name {
		case "max":
			request.params.Max, request.plural = int(in.integer(p, v, 1, maxBatch)), true
		case "wait_seconds":
			request.wait = time.Duration(in.integer(p, v, 0, maxWaitSeconds)) * time.Second
		case "visibility_timeout_seconds":
			seconds := in.integer(p, v, 1, maxVisibilitySeconds)
			request.params.VisibilityTimeout = time.Duration(seconds) * time.Second
		case "consumer":
			request.params.Consumer = in.consumer(p, v)
		default:
			return false
		}
		return true
	})
	return request, in.err()
}

// claimOrWait claims at once, or else as soon as something is ready within the wait. The request's slot is free while
// it waits, so that waiting costs others nothing.
func (a *API) claimOrWait(c *call, request claimRequest) ([]message.Message, error) {
	if request.wait == 0 {
		return a.claimNow(c, request.params)
	}
	if !a.polls.tryTake() {
		return nil, problemOverloaded()
	}
	defer a.polls.give()
	timeout := time.NewTimer(request.wait)
	defer timeout.Stop()
	waiter := a.hub.join(c.queue)
	full := false
	defer func() { a.hub.leave(waiter, full) }()
	for {
		messages, err := a.claimNow(c, request.params)
		if err != nil || len(messages) > 0 {
			full = isFull(messages, request.params.Max)
			return messages, err
		}
		if !a.waitForHint(c, waiter, timeout.C) {
			return nil, nil
		}
	}
}

// waitForHint waits, without the request's slot, until there is reason to claim again. It returns false when the wait
// is over: time is up, the server drains, or the client is gone.
func (a *API) waitForHint(c *call, w *waiter, timeout <-chan time.Time) bool {
	a.slots.give()
	hinted := false
	select {
	case <-w.signal:
		hinted = true
	case <-timeout:
	case <-c.r.Context().Done():
	case <-a.hub.closed:
	}
	if !hinted {
		// The slot is taken back in any case: the caller gives it.
		a.slots <- struct{}{}
		return false
	}
	taken := a.slots.take(c.r.Context())
	if !taken {
		a.slots <- struct{}{}
		return false // The hint was not acted on; leaving passes it on.
	}
	a.hub.take(w)
	return true
}

// claimBytes is the size of payloads after which a claim takes no further message.
const claimBytes = 4 << 20

// claimNow claims what is ready, up to Max messages and about claimBytes of payload. It never claims for a client that
// is gone already.
func (a *API) claimNow(c *call, params store.ClaimParams) ([]message.Message, error) {
	if c.clientGone() {
		return nil, nil
	}
	ctx, cancel := c.detached()
	defer cancel()
	params.MaxBytes = claimBytes
	return a.backend.Claim(ctx, c.queue, params)
}

// isFull reports that a claim ended because it had enough, so that there may be more.
func isFull(messages []message.Message, most int) bool {
	size := 0
	for i := range messages {
		size += len(messages[i].Payload)
	}
	return len(messages) == most || size >= claimBytes
}

// giveBack releases messages whose claimer will never see them. What cannot be released comes back when its lease
// expires.
func (a *API) giveBack(c *call, messages []message.Message) {
	if len(messages) == 0 {
		return
	}
	ctx, cancel := c.detached()
	defer cancel()
	released := 0
	for i := range messages {
		if messages[i].Lease == nil {
			continue
		}
		lease := store.LeaseRef{ID: messages[i].ID, Token: messages[i].Lease.Token}
		if _, err := a.backend.Release(ctx, c.queue, lease, 0); err != nil {
			a.logger.WarnContext(ctx, "claimed messages could not be given back", "request_id", c.requestID,
				"messages", len(messages)-released, "error", err)
			break
		}
		released++
	}
	a.hub.wakeAll(c.queue, released)
}

// wakeFor hints waiters at messages that are, or will be, ready. Of a group only the first can be claimed.
func (a *API) wakeFor(queue string, messages []message.Message) {
	ready, groups := 0, map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if m.Status != message.Pending || groups[m.GroupKey] {
			continue
		}
		if m.GroupKey != "" {
			groups[m.GroupKey] = true
		}
		if m.RetryAfter == nil {
			ready++
		} else {
			a.hub.wakeAfter(queue, m.RetryAfter.Sub(m.UpdatedAt))
		}
	}
	if ready > 0 {
		a.hub.wakeAll(queue, ready)
	}
}

// wakeNext hints waiters at what comes next in the groups of messages that are finished now.
func (a *API) wakeNext(queue string, settled ...store.Settled) {
	next := 0
	for i := range settled {
		m := &settled[i].Message
		isFinished := m.Status == message.Succeeded || m.Status == message.Dead
		if settled[i].Err == nil && isFinished && m.GroupKey != "" {
			next++
		}
	}
	if next > 0 {
		a.hub.wakeAll(queue, next)
	}
}
