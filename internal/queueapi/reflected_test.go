package queueapi

import (
	"time"

	"deadletter.dev/deadletter/internal/message"
)

// The answers as types that encoding/json can write, for comparison with those that write themselves.

// stateJSON is a message without its contents.
type stateJSON struct {
	ID             int64          `json:"id"`
	Queue          string         `json:"queue"`
	Status         message.Status `json:"status"`
	Priority       int            `json:"priority"`
	GroupKey       *string        `json:"group_key"`
	RetryCount     int            `json:"retry_count"`
	MaxRetries     int            `json:"max_retries"`
	DeliveryCount  int            `json:"delivery_count"`
	ReplayCount    int            `json:"replay_count"`
	RetryAfter     *time.Time     `json:"retry_after"`
	ExpiresAt      *time.Time     `json:"expires_at"`
	LastError      *string        `json:"last_error"`
	LastFailure    *failureJSON   `json:"last_failure"`
	LeaseToken     string         `json:"lease_token,omitempty"`
	LeaseExpiresAt *time.Time     `json:"lease_expires_at"`
	FirstFailureAt *time.Time     `json:"first_failure_at"`
	DeadAt         *time.Time     `json:"dead_at"`
	CreatedAt      time.Time      `json:"created_at"`
	UpdatedAt      time.Time      `json:"updated_at"`
}

// messageJSON is a message.
type messageJSON struct {
	stateJSON

	Payload         string          `json:"payload"`
	PayloadEncoding payloadEncoding `json:"payload_encoding"`
	PayloadSize     int             `json:"payload_size"`
	// PayloadTruncated is set in lists only, where long payloads are cut.
	PayloadTruncated bool         `json:"payload_truncated,omitempty"`
	Headers          []headerJSON `json:"headers"`
}

type messagesJSON struct {
	Messages []messageJSON `json:"messages"`
}

func newStateJSON(m *message.Message) stateJSON {
	state := stateJSON{
		ID:             m.ID,
		Queue:          m.Queue,
		Status:         m.Status,
		Priority:       m.Priority,
		GroupKey:       textOrNil(m.GroupKey),
		RetryCount:     m.RetryCount,
		MaxRetries:     m.MaxRetries,
		DeliveryCount:  m.DeliveryCount,
		ReplayCount:    m.ReplayCount,
		RetryAfter:     utcOrNil(m.RetryAfter),
		ExpiresAt:      utcOrNil(m.ExpiresAt),
		FirstFailureAt: utcOrNil(m.FirstFailureAt),
		DeadAt:         utcOrNil(m.DeadAt),
		CreatedAt:      m.CreatedAt.UTC(),
		UpdatedAt:      m.UpdatedAt.UTC(),
	}
	if m.Lease != nil {
		state.LeaseExpiresAt = utcOrNil(&m.Lease.ExpiresAt)
	}
	if m.LastFailure != nil {
		state.LastError = &m.LastFailure.Reason
		failure := newFailureJSON(m.LastFailure)
		state.LastFailure = &failure
	}
	return state
}

func newMessageJSON(m *message.Message) messageJSON {
	view := messageJSON{stateJSON: newStateJSON(m), PayloadSize: m.PayloadSize, Headers: newHeadersJSON(m.Headers)}
	view.Payload, view.PayloadEncoding = encodePayload(m.Payload)
	return view
}

// newClaimedJSON is a message as its claimer sees it: the only view that shows the lease token.
func newClaimedJSON(m *message.Message) messageJSON {
	view := newMessageJSON(m)
	if m.Lease != nil {
		view.LeaseToken = m.Lease.Token
	}
	return view
}

// newListedJSON is a message as a list shows it: a long payload is cut.
func newListedJSON(m *message.Message) messageJSON {
	shown, cut := preview(m)
	listed := *m
	listed.Payload = shown
	view := newMessageJSON(&listed)
	view.PayloadTruncated = cut
	return view
}

func viewsJSON(messages []message.Message, view func(*message.Message) messageJSON) []messageJSON {
	views := make([]messageJSON, len(messages))
	for i := range messages {
		views[i] = view(&messages[i])
	}
	return views
}

type claimedManyJSON struct {
	Claimed  bool          `json:"claimed"`
	Messages []messageJSON `json:"messages"`
}

type claimedOneJSON struct {
	Claimed bool         `json:"claimed"`
	Message *messageJSON `json:"message"`
}

func newClaimJSON(messages []message.Message, plural bool) any {
	views := viewsJSON(messages, newClaimedJSON)
	switch {
	case plural:
		return claimedManyJSON{Claimed: len(views) > 0, Messages: views}
	case len(views) > 0:
		return claimedOneJSON{Claimed: true, Message: &views[0]}
	default:
		return claimedOneJSON{}
	}
}

type messagePageJSON struct {
	Messages   []messageJSON `json:"messages"`
	Count      int           `json:"count"`
	NextCursor *string       `json:"next_cursor"`
}

func newPageJSON(messages []message.Message, next string) messagePageJSON {
	return messagePageJSON{viewsJSON(messages, newListedJSON), len(messages), textOrNil(next)}
}

type resultJSON struct {
	ID      *int64     `json:"id"`
	Status  int        `json:"status"`
	Message *stateJSON `json:"message,omitempty"`
	Problem *problem   `json:"problem,omitempty"`
}

type resultsJSON struct {
	Results []resultJSON `json:"results"`
}

func newResultsJSON(results []result) resultsJSON {
	views := make([]resultJSON, len(results))
	for i, r := range results {
		if r.id != 0 {
			views[i].ID = &r.id
		}
		if r.problem != nil {
			views[i].Status, views[i].Problem = r.problem.Status, r.problem
			continue
		}
		state := newStateJSON(r.message)
		views[i].Status, views[i].Message = 200, &state
	}
	return resultsJSON{views}
}
