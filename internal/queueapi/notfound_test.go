package queueapi_test

import (
	"net/http"
	"testing"
)

func TestNotFoundSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m := s.enqueue("orders", payloadOf("x"))
	const queue, message = "no queue of this name", "no message with this id"
	for _, test := range []struct{ method, path, want string }{
		{http.MethodGet, queuePath("none"), queue},
		{http.MethodGet, itemPath("none", m.ID), queue},
		{http.MethodGet, letterPath("none", m.ID), queue},
		{http.MethodGet, itemPath("orders", m.ID+1), message},
		{http.MethodGet, letterPath("orders", m.ID+1), message},
		{http.MethodGet, letterPath("orders", m.ID), "is pending, so it is not a dead letter"},
		{http.MethodPost, itemPath("orders", m.ID+1) + "/succeed", message},
		{http.MethodPost, itemPath("orders", m.ID+1) + "/fail", message},
		{http.MethodPost, itemPath("orders", m.ID+1) + "/replay", message},
	} {
		if p := s.do(test.method, test.path, nil).problem(http.StatusNotFound, "not-found"); !contains(p.Detail, test.want) {
			t.Errorf("%s %s: %q, want %q", test.method, test.path, p.Detail, test.want)
		}
	}
}
