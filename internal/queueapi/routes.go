package queueapi

import (
	"net/http"

	"deadletter.dev/deadletter/internal/queueapi/auth"
)

// route is one method of one path.
type route struct {
	method string
	path   string
	access auth.Access
	handle func(*API, *call) error
	// params are the query parameters that the route knows; any other is refused.
	params []string
	// body is what the route takes as a body.
	body bodyKind
}

// queueRoutes are the routes that reach queues. The OpenAPI document has exactly these and the operations' own.
func queueRoutes() []route {
	const (
		queues   = "/queues"
		queue    = "/queues/{queue}"
		messages = "/queues/{queue}/messages"
		item     = "/queues/{queue}/messages/{id}"
		letters  = "/queues/{queue}/dead-letters"
		replays  = "/queues/{queue}/replays"
	)
	send := auth.Access{Verb: "create", Subresource: "messages"}
	receive := auth.Access{Verb: "get", Subresource: "messages"}
	settle := auth.Access{Verb: "update", Subresource: "messages"}
	browse := auth.Access{Verb: "list", Subresource: "deadletters"}
	inspect := auth.Access{Verb: "get", Subresource: "deadletters"}
	revive := auth.Access{Verb: "update", Subresource: "deadletters"}
	remove := auth.Access{Verb: "delete", Subresource: "deadletters"}
	purge := auth.Access{Verb: "delete", Subresource: "messages"}
	paging := []string{"cursor", "limit"}
	filters := append([]string{
		"category", "fingerprint", "error_class", "reason", "consumer_version", "died_after", "died_before",
		"replay_count", "header",
	}, paging...)
	return []route{
		{http.MethodGet, queues, auth.Access{Verb: "list"}, (*API).listQueues, paging, noBody},
		{http.MethodGet, queue, auth.Access{Verb: "get"}, (*API).getQueue, nil, noBody},
		{http.MethodPost, messages, send, (*API).enqueue, nil, enqueueBody},
		{http.MethodGet, messages, receive, (*API).listMessages, append([]string{"status", "offset"}, paging...), noBody},
		{http.MethodGet, item, receive, (*API).getMessage, nil, noBody},
		{http.MethodPost, queue + "/claim", receive, (*API).claim, nil, smallBody},
		{http.MethodPost, queue + "/succeed", settle, (*API).succeedBatch, nil, settleBody},
		{http.MethodPost, queue + "/fail", settle, (*API).failBatch, nil, settleBody},
		{http.MethodPost, item + "/succeed", settle, (*API).succeed, nil, smallBody},
		{http.MethodPost, item + "/fail", settle, (*API).fail, nil, reportBody},
		{http.MethodPost, item + "/extend", settle, (*API).extend, nil, smallBody},
		{http.MethodPost, item + "/release", settle, (*API).release, nil, smallBody},
		{http.MethodPost, item + "/replay", revive, (*API).replay, nil, smallBody},
		{http.MethodPost, item + "/discard", remove, (*API).discard, nil, smallBody},
		{http.MethodPost, queue + "/purge", purge, (*API).purge, nil, smallBody},
		{http.MethodGet, letters, browse, (*API).listDeadLetters, filters, noBody},
		{http.MethodGet, letters + "/groups", browse, (*API).listGroups, []string{"limit"}, noBody},
		{http.MethodGet, letters + "/{id}", inspect, (*API).getDeadLetter, nil, noBody},
		{http.MethodGet, item + "/revisions/{number}", inspect, (*API).getRevision, nil, noBody},
		{http.MethodGet, replays, browse, (*API).listReplays, paging, noBody},
		{http.MethodGet, replays + "/{id}", browse, (*API).getReplay, nil, noBody},
		{http.MethodGet, replays + "/{id}/messages", browse, (*API).listReplayed, paging, noBody},
	}
}

// operationRoutes are the routes that watch the server itself. They need no authentication and no database.
func operationRoutes() []route {
	return []route{
		{http.MethodGet, "/healthz", auth.Access{}, (*API).healthz, nil, noBody},
		{http.MethodGet, "/readyz", auth.Access{}, (*API).readyz, nil, noBody},
		{http.MethodGet, "/metrics", auth.Access{}, (*API).serveMetrics, nil, noBody},
		{http.MethodGet, "/openapi.json", auth.Access{}, (*API).serveOpenAPI, nil, noBody},
	}
}
