package queueapi

import (
	"net/http"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
	"deadletter.dev/deadletter/internal/store"
)

// result is what became of one item of a batch: the message, or the problem that the single call would have met.
type result struct {
	// id is 0 when the item named none.
	id      int64
	message *message.Message
	problem *problem
}

// resultsAnswer is what became of a batch, item by item.
type resultsAnswer []result

func (a resultsAnswer) appendJSON(b []byte) []byte {
	b = append(b, `{"results":[`...)
	for i := range a {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendResult(b, &a[i])
	}
	return append(b, "]}"...)
}

func appendResult(b []byte, r *result) []byte {
	if r.id == 0 {
		b = appendNullMember(b, `{"id":`)
	} else {
		b = appendIntMember(b, `{"id":`, r.id)
	}
	if r.problem != nil {
		b = appendIntMember(b, `,"status":`, int64(r.problem.Status))
		b, _ = appendReflected(append(b, `,"problem":`...), r.problem) // It has only strings and integers.
		return append(b, '}')
	}
	b = appendIntMember(b, `,"status":`, http.StatusOK)
	b = appendState(append(b, `,"message":{`...), r.message, "")
	return append(b, "}}"...)
}

// succeedBatch finishes several messages, each on its own.
func (a *API) succeedBatch(c *call) error {
	body, err := c.strictBody()
	if err != nil {
		return err
	}
	leases, err := a.decodeLeases(body)
	if err != nil {
		return err
	}
	ctx, cancel := c.detached()
	defer cancel()
	settled, err := a.backend.Succeed(ctx, c.queue, leases)
	if err != nil {
		return err
	}
	a.wakeNext(c.queue, settled...)
	results := make([]result, len(settled))
	for i := range settled {
		results[i] = newResult(leases[i].ID, &settled[i])
	}
	return c.answer(http.StatusOK, resultsAnswer(results))
}

func (a *API) decodeLeases(body strictjson.Value) ([]store.LeaseRef, error) {
	var in input
	var leases []store.LeaseRef
	hasItems := false
	in.object(nil, body, func(name string, p *place, v strictjson.Value) bool {
		if name != "items" {
			return false
		}
		hasItems = true
		if !in.array(p, v, 1, maxBatch) {
			return true
		}
		for element := range v.Elements() {
			here := p.at(len(leases))
			leases = append(leases, in.lease(&here, element, a.requireToken))
		}
		return true
	})
	if body.Kind() == strictjson.Object {
		in.require(nil, "items", hasItems)
	}
	return leases, in.err()
}

func (in *input) lease(p *place, v strictjson.Value, requireToken bool) store.LeaseRef {
	var lease store.LeaseRef
	hasID, hasToken := false, false
	in.object(p, v, func(name string, p *place, v strictjson.Value) bool {
		switch name {
		case "id":
			lease.ID, hasID = in.id(p, v), true
		case "lease_token":
			lease.Token, hasToken = in.leaseToken(p, v), true
		default:
			return false
		}
		return true
	})
	if v.Kind() == strictjson.Object {
		in.require(p, "id", hasID)
		in.require(p, "lease_token", hasToken || !requireToken)
	}
	return lease
}

// failBatch records several failures. An item that cannot be understood is refused alone: it must not keep the failures
// beside it from being recorded.
func (a *API) failBatch(c *call) error {
	items, err := decodeReports(c.sent)
	if err != nil {
		return err
	}
	results := make([]result, len(items))
	failures := make([]store.FailedLease, 0, len(items))
	positions := make([]int, 0, len(items))
	for i, item := range items {
		if item.err == nil {
			item.err = a.checkToken(item.failed.Token)
		}
		if item.err != nil {
			results[i] = refusedResult(item.failed.ID, item.err)
			continue
		}
		failures, positions = append(failures, item.failed), append(positions, i)
	}
	if len(failures) > 0 {
		ctx, cancel := c.detached()
		defer cancel()
		settled, err := a.backend.Fail(ctx, c.queue, failures)
		if err != nil {
			return err
		}
		for i := range settled {
			results[positions[i]] = newResult(failures[i].ID, &settled[i])
			a.wakeFor(c.queue, []message.Message{settled[i].Message})
		}
		a.wakeNext(c.queue, settled...)
	}
	return c.answer(http.StatusOK, resultsAnswer(results))
}

func newResult(id int64, settled *store.Settled) result {
	if settled.Err != nil {
		return refusedResult(id, settled.Err)
	}
	return result{id: id, message: &settled.Message}
}

func refusedResult(id int64, err error) result {
	return result{id: id, problem: problemOf(err)}
}
