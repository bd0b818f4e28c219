package replay

import (
	"strings"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	canary := store.RunPlan{Canary: store.RunCanary{Messages: 10, MaxRedeathPercent: 20}}
	strict := store.RunPlan{Canary: store.RunCanary{Messages: 10}}
	rule := store.RunPlan{Abort: store.RunAbort{RedeathPercent: 50, MinSample: 4}}
	now := time.Now()
	for name, c := range map[string]struct {
		run    store.Run
		want   verdict
		reason string
	}{
		"a plain run proceeds":             {store.Run{Replayed: 5, Redied: 5}, proceed, ""},
		"the canary is sent":               {store.Run{Plan: canary, Replayed: 9, Succeeded: 9}, proceed, ""},
		"it is waited for":                 {store.Run{Plan: canary, Replayed: 10, Succeeded: 9}, hold, ""},
		"it passes":                        {store.Run{Plan: canary, Replayed: 10, Succeeded: 10}, pass, ""},
		"some may die again":               {store.Run{Plan: canary, Replayed: 10, Succeeded: 8, Redied: 2}, pass, ""},
		"not more":                         {store.Run{Plan: canary, Replayed: 10, Redied: 3}, abort, "3 of the 10 canary"},
		"nor one where none may":           {store.Run{Plan: strict, Replayed: 4, Redied: 1}, abort, "more than 0 %"},
		"what was removed is not known":    {store.Run{Plan: canary, Replayed: 10, Succeeded: 9, Removed: 1}, hold, ""},
		"after the canary the run goes on": {store.Run{Plan: canary, Replayed: 50, Redied: 30, CanaryPassedAt: &now}, proceed, ""},
		"a small sample says nothing":      {store.Run{Plan: rule, Replayed: 9, Redied: 3}, proceed, ""},
		"below the limit":                  {store.Run{Plan: rule, Replayed: 9, Succeeded: 3, Redied: 2}, proceed, ""},
		"at the limit":                     {store.Run{Plan: rule, Replayed: 9, Succeeded: 2, Redied: 2}, abort, "2 of 4"},
		"what has not ended does not count": {
			store.Run{Plan: rule, Replayed: 1000, Succeeded: 1, Redied: 2}, proceed, "",
		},
	} {
		got, reason := judge(c.run)
		if got != c.want || !strings.Contains(reason, c.reason) || (reason == "") != (c.want != abort) {
			t.Errorf("%s: got %d %q, want %d", name, got, reason, c.want)
		}
	}
}

func TestIsHeld(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	run := store.Run{
		State: store.RunRunning, CanarySentAt: &sent,
		Plan: store.RunPlan{Canary: store.RunCanary{Messages: 1, DeadlineSeconds: 60}},
	}
	if held, overdue := IsHeld(run, sent.Add(time.Minute)); !held || !overdue.IsZero() {
		t.Errorf("within its deadline: held %v, overdue since %s", held, overdue)
	}
	if held, overdue := IsHeld(run, sent.Add(time.Hour)); !held || !overdue.Equal(sent.Add(time.Minute)) {
		t.Errorf("after its deadline: held %v, overdue since %s", held, overdue)
	}
	passed := run
	passed.CanaryPassedAt = &sent
	ended := run
	ended.State = store.RunAborted
	for _, other := range []store.Run{passed, ended, {State: store.RunRunning}} {
		if held, _ := IsHeld(other, sent.Add(time.Hour)); held {
			t.Errorf("%+v is held", other)
		}
	}
}
