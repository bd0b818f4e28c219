package queueapi

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// newHandler builds the mux. Methods are dispatched here rather than by the mux, whose own 405 and 404 are plain text.
func (a *API) newHandler() http.Handler {
	mux := http.NewServeMux()
	a.register(mux, queueRoutes(), (*API).queueCall)
	a.register(mux, operationRoutes(), func(_ *API, c *call, r route) error { return r.handle(a, c) })
	mux.HandleFunc("/", a.wrap("none", func(*call) error {
		return problemNotFound("There is nothing at this path. The paths are listed in /openapi.json.")
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isCleanPath(r.URL.EscapedPath()) {
			// The mux would answer with a redirect to another path, which might name another queue.
			r.URL.Path, r.URL.RawPath = "/.", ""
			a.wrap("none", func(*call) error {
				return problemNotFound("The path must not have empty, '.' or '..' segments.")
			})(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// register adds routes, grouped by path.
func (a *API) register(mux *http.ServeMux, routes []route, run func(*API, *call, route) error) {
	byPath := map[string]map[string]route{}
	for _, r := range routes {
		if byPath[r.path] == nil {
			byPath[r.path] = map[string]route{}
		}
		byPath[r.path][r.method] = r
	}
	for pattern, methods := range byPath {
		allow := allowed(methods)
		mux.HandleFunc(pattern, a.wrap(pattern, func(c *call) error {
			method := c.r.Method
			if method == http.MethodHead {
				method = http.MethodGet // net/http drops the body.
			}
			if r, ok := methods[method]; ok {
				return run(a, c, r)
			}
			if method == http.MethodOptions {
				c.w.Header().Set("Allow", allow)
				c.w.WriteHeader(http.StatusNoContent)
				return nil
			}
			return problemMethodNotAllowed(method, allow)
		}))
	}
}

func allowed(methods map[string]route) string {
	names := []string{http.MethodOptions}
	for method := range methods {
		names = append(names, method)
		if method == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// isCleanPath reports that the mux would not rewrite the path.
func isCleanPath(escaped string) bool {
	if escaped == "*" || escaped == "" || escaped[0] != '/' {
		return false
	}
	clean := path.Clean(escaped)
	return escaped == clean || (clean != "/" && escaped == clean+"/")
}
