package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadletter.dev/deadletter/internal/store"
)

// listening is a store's ListenReady in the background.
type listening struct {
	names chan []string
	done  chan error
	stop  context.CancelFunc
}

// listen returns once the store listens.
func (d database) listen(t *testing.T) listening {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := listening{names: make(chan []string, 100), done: make(chan error, 1), stop: stop}
	go func() {
		err := d.ListenReady(ctx, func(queues []string) { l.names <- queues })
		l.done <- err
		close(l.names)
	}()
	if first := l.next(t); len(first) != 0 {
		t.Fatalf("the first call names %v", first)
	}
	return l
}

func (l listening) next(t *testing.T) []string {
	t.Helper()
	names, ok := <-l.names
	if !ok {
		t.Fatalf("listening ended: %v", <-l.done)
	}
	return names
}

func TestNotifyReachesOtherStoresOfTheSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	other := openDatabase(t, d.url, store.Options{MaxConns: 1})
	l := d.listen(t)
	channel := store.ReadyChannel(schema)
	// None of these is heard: its own, and what is not from a store.
	if err := d.NotifyReady(t.Context(), []string{"own"}); err != nil {
		t.Fatal(err)
	}
	for _, payload := range []string{
		"", "orders", "[1", `["orders"]`, `{"queues":["orders"]}`, `{"from":"x"}`, `{"from":"x","queues":"orders"}`,
	} {
		d.exec(t, "SELECT pg_notify($1, $2)", channel, payload)
	}
	d.exec(t, "SELECT pg_notify($1, $2)", store.ReadyChannel("elsewhere"), `{"from":"x","queues":["elsewhere"]}`)
	if err := other.NotifyReady(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := other.NotifyReady(t.Context(), []string{"orders", `"quoted" <ü>`}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"orders", `"quoted" <ü>`}, l.next(t)); diff != "" {
		t.Error(diff)
	}
	l.stop()
	if err := <-l.done; err == nil {
		t.Error("listening ends without a reason")
	}
}

func TestNotifyOfManyQueuesArrivesWhole(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	other := openDatabase(t, d.url, store.Options{})
	l := d.listen(t)
	var want, got []string
	for i := range 1000 {
		want = append(want, fmt.Sprintf("%s-%d", strings.Repeat("q", 50), i))
	}
	if err := other.NotifyReady(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for len(got) < len(want) {
		got = append(got, l.next(t)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNotifyPayloadsFit(t *testing.T) {
	t.Parallel()
	names := []string{strings.Repeat("<", 1300), strings.Repeat("<", 2000), strings.Repeat("a", 7000), "b", "c"}
	var got []string
	payloads := store.ReadyPayloads("someone", names)
	for _, payload := range payloads {
		var notice struct {
			From   string
			Queues []string
		}
		if err := json.Unmarshal([]byte(payload), &notice); err != nil || notice.From != "someone" {
			t.Errorf("payload %.80s: %v", payload, err)
		}
		if len(payload) > 7900 {
			t.Errorf("a payload has %d bytes", len(payload))
		}
		got = append(got, notice.Queues...)
	}
	// A name of 2,000 characters that take six bytes each fits nowhere.
	if diff := cmp.Diff(slices.Delete(names, 1, 2), got); diff != "" || len(payloads) != 2 {
		t.Errorf("%d payloads: %s", len(payloads), diff)
	}
}

func TestNotifyChannelIsAnIdentifier(t *testing.T) {
	t.Parallel()
	one, two := store.ReadyChannel(strings.Repeat("s", 63)), store.ReadyChannel(strings.Repeat("s", 62)+"t")
	if one == two || len(one) > 63 {
		t.Errorf("channels %q and %q", one, two)
	}
}

func TestNotifyListenerReturnsWhenItsSessionEnds(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	l := d.listen(t)
	d.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN %'`)
	if err := <-l.done; err == nil || !store.IsUnavailable(err) {
		t.Errorf("listening ends with %v", err)
	}
}
