package queueapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"deadletter.dev/deadletter/internal/queueapi/auth"
)

// Guard decides who may do what.
type Guard interface {
	// Authorize returns nil when the bearer of token may do access. It returns auth.ErrUnauthenticated or
	// auth.ErrForbidden, or another error when it could not be decided.
	Authorize(ctx context.Context, token string, access auth.Access) error
}

func (a *API) authorize(c *call, access auth.Access) error {
	if a.guard == nil {
		return nil
	}
	// Before the body is read, so that only callers that may be here make the server wait for one.
	if !a.slots.tryTake() {
		return problemOverloaded()
	}
	defer a.slots.give()
	scheme, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	access.Queue = c.queue
	err := auth.ErrUnauthenticated
	if token = strings.TrimSpace(token); token != "" {
		err = a.guard.Authorize(c.r.Context(), token, access)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, auth.ErrUnauthenticated):
		p := newProblem(http.StatusUnauthorized, "unauthenticated", "Authentication is needed",
			"Send Authorization: Bearer with a Kubernetes service account token for the audience 'deadletter'.")
		p.headers = []string{"WWW-Authenticate", `Bearer realm="deadletter"`}
		return p
	case errors.Is(err, auth.ErrForbidden):
		return newProblem(http.StatusForbidden, "forbidden", "Not allowed",
			"The caller may not "+access.Verb+" "+access.Resource()+" of this queue. Bind a role that allows it.")
	default:
		undecided := problemUnavailable("Who may do this could not be decided: the Kubernetes API did not answer. Retry.")
		return errors.Join(undecided, err)
	}
}
