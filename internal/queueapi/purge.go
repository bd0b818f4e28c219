package queueapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
	"deadletter.dev/deadletter/internal/store"
)

// purgeTime bounds one purge, so that its answer comes while somebody waits for it.
const purgeTime = 20 * time.Second

// purgeAnswer is the answer to a purge.
type purgeAnswer struct {
	Scope    message.Status `json:"scope"`
	Before   time.Time      `json:"before"`
	Removed  int64          `json:"removed"`
	Complete bool           `json:"complete"`
}

// purge removes the messages of one status.
func (a *API) purge(c *call) error {
	scope, before, err := c.purgeBody()
	if err != nil {
		return err
	}
	if _, err := a.backend.Queue(c.r.Context(), c.queue); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return noSuchQueue()
		}
		return err
	}
	detached, cancel := c.detached()
	defer cancel()
	ctx, cancel := context.WithTimeout(detached, purgeTime)
	defer cancel()
	result, err := a.backend.Purge(ctx, c.queue, scope, before)
	a.logger.Info("queue purged", "queue", c.queue, "scope", scope, "before", result.Before, "removed", result.Removed,
		"request_id", c.requestID)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, purgeAnswer{scope, result.Before, result.Removed, result.Complete})
}

// purgeBody reads what is to be purged. There is no scope by default: what is not named is never touched.
func (c *call) purgeBody() (scope message.Status, before time.Time, err error) {
	body, err := c.strictBody()
	if err != nil {
		return "", before, err
	}
	var in input
	in.object(nil, body, func(name string, p *place, v strictjson.Value) bool {
		switch name {
		case "scope":
			scope = in.purgeScope(p, v)
		case "before":
			before = in.instant(p, v)
		default:
			return false
		}
		return true
	})
	if scope == "" && len(in.errs) == 0 {
		in.require(nil, "scope", false)
	}
	return scope, before, in.err()
}

func (in *input) purgeScope(p *place, v strictjson.Value) message.Status {
	switch scope := message.Status(in.text(p, v, maxQuoted)); {
	case v.Kind() != strictjson.String:
		return ""
	case scope == message.Pending, scope == message.Succeeded, scope == message.Dead:
		return scope
	default:
		in.refuse(p, codeInvalidValue, "must be pending, succeeded or dead; what is being processed is never purged")
		return ""
	}
}

// instant reads a time.
func (in *input) instant(p *place, v strictjson.Value) time.Time {
	text := in.text(p, v, maxQuoted)
	if v.Kind() != strictjson.String {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.IsZero() || at.UTC().Year() < firstYear || at.UTC().Year() > lastYear {
		in.refuse(p, codeInvalidValue, "must be an RFC 3339 time such as 2026-01-31T08:00:00Z")
		return time.Time{}
	}
	return at.UTC()
}
