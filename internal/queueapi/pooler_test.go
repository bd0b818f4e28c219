package queueapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

// Two processes share two sessions through a pooler, with a claim that waits at one for what is sent through the other.
func TestRunThroughAPooler(t *testing.T) {
	t.Parallel()
	config := queueapi.Config{
		DatabaseURL: pgtest.Pooler(t, migrated(t), pgtest.PoolerOptions{}), Pooler: store.TransactionPooler,
	}
	one, other := startProcess(t, config), startProcess(t, config)
	one.awaitReady(t)
	other.awaitReady(t)
	polling := make(chan *response, 1)
	go func() { polling <- post(t, one.url+"/queues/orders/claim", http.Header{}, `{"wait_seconds":20}`) }()
	awaitText(t, one.url+"/metrics", "\ndeadletter_long_polls 1\n")
	post(t, other.url+"/queues/orders/messages", http.Header{}, `{"payload":"x","max_retries":1}`).want(201)
	sent := time.Now()
	got := decode[claimed]((<-polling).want(200))
	if !got.Claimed {
		t.Fatal("the long poll ends with nothing")
	}
	if took := time.Since(sent); took > 10*time.Second {
		t.Errorf("the long poll took %s", took)
	}
	item := itemPath("orders", got.Message.ID)
	post(t, other.url+item+"/fail", http.Header{}, `{"error":"no such customer"}`).want(200)
	awaitText(t, one.url+"/queues/orders/dead-letters", `"no such customer"`)
	post(t, one.url+item+"/replay", http.Header{}, ``).want(200)
	again := decode[claimed](post(t, other.url+"/queues/orders/claim", http.Header{}, `{"wait_seconds":20}`).want(200))
	post(t, one.url+item+"/succeed", http.Header{}, `{"lease_token":"`+again.Message.LeaseToken+`"}`).want(200)
	awaitText(t, other.url+"/queues/orders", `"succeeded":1`)
	for _, p := range []*process{one, other} {
		p.stop()
		if err := <-p.done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

// awaitText returns once a page holds a text.
func awaitText(t *testing.T, url, want string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		page := get(t, url)
		if strings.Contains(page, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come to say %q: %s", url, want, page)
		}
	}
}
