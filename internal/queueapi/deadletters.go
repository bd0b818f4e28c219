package queueapi

import (
	"errors"
	"net/http"
	"strings"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// Bounds of the filters of dead letters.
const (
	maxFilterValues  = 20
	fingerprintLen   = 16
	maxReplayCount   = 1 << 30
	maxGroups        = 100
	defaultGroups    = 20
	headerFilterHint = "must be name:value; the value must match exactly"
)

// listDeadLetters answers a page of dead letters, newest death first.
func (a *API) listDeadLetters(c *call) error {
	q := params{values: c.query}
	filter, after, limit := q.deadLetterFilter(), q.deadLetterCursor(), q.limit()
	if err := q.err(); err != nil {
		return err
	}
	page, err := a.backend.DeadLetters(c.r.Context(), c.queue, filter, after, limit)
	if err == nil && len(page.Letters) == 0 {
		err = a.mustExist(c)
	}
	if err != nil {
		return err
	}
	answer := letterPageJSON{Letters: make([]letterJSON, len(page.Letters)), Count: len(page.Letters)}
	for i := range page.Letters {
		answer.Letters[i] = newListedLetterJSON(&page.Letters[i])
	}
	if page.Next != nil {
		next := deadLetterCursor(*page.Next)
		answer.NextCursor = &next
	}
	return c.answer(http.StatusOK, answer)
}

// getDeadLetter answers one dead letter with its whole history.
func (a *API) getDeadLetter(c *call) error {
	letter, err := a.backend.DeadLetter(c.r.Context(), c.queue, c.id)
	if errors.Is(err, store.ErrNotFound) {
		return a.whyNoLetter(c)
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, newLetterJSON(&letter))
}

// whyNoLetter tells why there is no such dead letter.
func (a *API) whyNoLetter(c *call) error {
	m, err := a.backend.Get(c.r.Context(), c.queue, c.id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return a.whyNotFound(c)
	case err != nil:
		return err
	default:
		return problemNotFound("The message is " + string(m.Status) + ", so it is not a dead letter.")
	}
}

// listGroups answers the groups of a queue's dead letters.
func (a *API) listGroups(c *call) error {
	q := params{values: c.query}
	limit := q.integer("limit", 1, maxGroups, defaultGroups)
	if err := q.err(); err != nil {
		return err
	}
	groups, err := a.backend.DeadLetterGroups(c.r.Context(), c.queue, limit)
	if err == nil && len(groups) == 0 {
		err = a.mustExist(c)
	}
	if err != nil {
		return err
	}
	answer := groupsJSON{Groups: make([]groupJSON, len(groups)), Count: len(groups)}
	for i := range groups {
		answer.Groups[i] = newGroupJSON(&groups[i])
	}
	return c.answer(http.StatusOK, answer)
}

// mustExist refuses a queue that is not there: whoever mistypes its name must not read that nothing is dead.
func (a *API) mustExist(c *call) error {
	_, err := a.backend.Queue(c.r.Context(), c.queue)
	if errors.Is(err, store.ErrNotFound) {
		return noSuchQueue()
	}
	return err
}

// deadLetterFilter reads the filters, all of which must hold.
func (q *params) deadLetterFilter() store.DeadLetterFilter {
	filter := store.DeadLetterFilter{
		Fingerprints:   q.fingerprints(),
		ErrorClass:     q.text("error_class"),
		ReasonContains: q.text("reason"),
		DiedAfter:      q.instant("died_after"),
		DiedBefore:     q.instant("died_before"),
		Headers:        q.headers(),
	}
	if version := q.text("consumer_version"); version != "" {
		filter.ConsumerVersions = []string{version}
	}
	for _, name := range q.texts("category", maxFilterValues) {
		// Cleaned as it was when it was stored.
		filter.Categories = append(filter.Categories, message.NewCategory(name))
	}
	if _, given := q.values["replay_count"]; given {
		count := q.integer("replay_count", 0, maxReplayCount, 0)
		filter.ReplayCount = &count
	}
	return filter
}

func (q *params) fingerprints() []string {
	values := q.texts("fingerprint", maxFilterValues)
	for _, value := range values {
		if len(value) != fingerprintLen || strings.Trim(value, "0123456789abcdef") != "" {
			q.refuse("fingerprint", codeInvalidValue, "must be %d lower-case hexadecimal digits", fingerprintLen)
		}
	}
	return values
}

func (q *params) headers() []message.Header {
	raw := q.text("header")
	if raw == "" {
		return nil
	}
	name, value, ok := strings.Cut(raw, ":")
	if !ok || name == "" {
		q.refuse("header", codeInvalidValue, headerFilterHint)
		return nil
	}
	return []message.Header{{Name: name, Value: value}}
}
