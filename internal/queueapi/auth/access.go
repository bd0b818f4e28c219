// Package auth decides who may use the data plane, by asking the Kubernetes API.
//
// Callers present a service account token for the audience "deadletter". TokenReview says who they are;
// SubjectAccessReview says whether RBAC lets them do it, on virtual subresources of the Queue resource:
// "queues/messages" for sending, receiving and settling, "queues/deadletters" for reading and replaying dead letters.
package auth

import "errors"

// Access is what a request does, in the words of Kubernetes authorisation.
type Access struct {
	// Verb is the Kubernetes verb.
	Verb string
	// Subresource is "messages" or "deadletters", or empty for queues themselves.
	Subresource string
	// Queue is the canonical name of the queue; empty when the request is about all queues.
	Queue string
}

// Resource names what the access is about, as in an RBAC rule.
func (a Access) Resource() string {
	if a.Subresource == "" {
		return "queues"
	}
	return "queues/" + a.Subresource
}

// The refusals, matched with errors.Is.
var (
	ErrUnauthenticated = errors.New("token is missing or not valid")
	ErrForbidden       = errors.New("not allowed")
)
