package storetest

import (
	"testing"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

var listTests = map[string]func(*testing.T, Fixture){
	"WalksEachMessageOnceUnderWrites": func(t *testing.T, f Fixture) {
		steady := map[int64]int{}
		for _, m := range f.enqueueN(t, 50) {
			steady[m.ID] = 0
		}
		params := store.ListParams{Limit: 7}
		for {
			page, err := f.List(t.Context(), queue, params)
			wantErr(t, err, nil)
			for _, m := range page.Messages {
				if _, ok := steady[m.ID]; ok {
					steady[m.ID]++
				}
			}
			f.churn(t)
			if params.AfterID = page.NextAfterID; params.AfterID == 0 || len(page.Messages) == 0 {
				break
			}
			if len(steady) > 0 && page.NextAfterID > maxID(steady) {
				break
			}
		}
		for id, seen := range steady {
			if seen != 1 {
				t.Fatalf("message %d was listed %d times", id, seen)
			}
		}
	},
	"FiltersByStatus": func(t *testing.T, f Fixture) {
		f.enqueueN(t, 4)
		held := f.claim(t, 3)
		f.succeed(t, lease(held[0]))
		f.failOne(t, held[1], message.Report{Permanent: true})
		for _, status := range message.Statuses() {
			page, err := f.List(t.Context(), queue, store.ListParams{Status: status, Limit: 10})
			wantErr(t, err, nil)
			if len(page.Messages) != 1 || page.Messages[0].Status != status || page.NextAfterID != 0 {
				t.Fatalf("%s: %+v", status, page)
			}
		}
	},
	"OffsetSkips": func(t *testing.T, f Fixture) {
		all := f.enqueueN(t, 5)
		page, err := f.List(t.Context(), queue, store.ListParams{Offset: 2, Limit: 2})
		wantErr(t, err, nil)
		if len(page.Messages) != 2 || page.Messages[0].ID != all[2].ID || page.NextAfterID != all[3].ID {
			t.Fatalf("page is %+v", page)
		}
	},
	"CutsLongPayloads": func(t *testing.T, f Fixture) {
		f.enqueue(t, store.NewMessage{Payload: make([]byte, store.PreviewBytes+1)})
		page, err := f.List(t.Context(), queue, store.ListParams{Limit: 1})
		wantErr(t, err, nil)
		if m := page.Messages[0]; len(m.Payload) != store.PreviewBytes || m.PayloadSize != store.PreviewBytes+1 {
			t.Fatalf("listed %d of %d bytes", len(m.Payload), m.PayloadSize)
		}
	},
	"UnknownQueueIsEmpty": func(t *testing.T, f Fixture) {
		page, err := f.List(t.Context(), queue, store.ListParams{Limit: 10})
		wantErr(t, err, nil)
		if len(page.Messages) != 0 {
			t.Fatalf("page is %+v", page)
		}
	},
}

// churn lets messages come and go: two more, one finished, one failed.
func (f Fixture) churn(t TB) {
	t.Helper()
	f.enqueueN(t, 2)
	held := f.claim(t, 2)
	f.succeed(t, lease(held[0]))
	f.failOne(t, held[1], message.Report{})
}

func maxID(ids map[int64]int) int64 {
	var highest int64
	for id := range ids {
		highest = max(highest, id)
	}
	return highest
}
