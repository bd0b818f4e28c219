package store_test

import (
	"errors"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

func TestClosedQueueTakesNoMessages(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.declare(t, orders, message.DefaultSettings())
	d.mustEnqueue(t, 1)
	shut := func(who store.Owner, span time.Duration) {
		t.Helper()
		if err := d.CloseQueue(t.Context(), orders, who, span); err != nil {
			t.Fatal(err)
		}
	}
	shut(store.Owner{Namespace: "other", Name: orders}, time.Hour)
	d.mustEnqueue(t, 1)
	shut(owner, time.Hour)
	if _, err := d.Enqueue(t.Context(), orders, []store.NewMessage{{}}); !errors.Is(err, store.ErrClosedQueue) {
		t.Errorf("a closed queue took a message: %v", err)
	}
	if held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 3}); err != nil || len(held) != 2 {
		t.Errorf("claimed %d of 2 messages of a closed queue, %v", len(held), err)
	}
	for name, open := range map[string]func(){
		"its time is over": func() { shut(owner, 0) },
		"declared again":   func() { d.declare(t, orders, message.DefaultSettings()) },
		"nobody declares it": func() {
			if err := d.UndeclareQueue(t.Context(), orders, owner); err != nil {
				t.Fatal(err)
			}
		},
	} {
		d.declare(t, orders, message.DefaultSettings())
		shut(owner, time.Hour)
		open()
		if _, err := d.Enqueue(t.Context(), orders, []store.NewMessage{{}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
