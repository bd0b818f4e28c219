package replay_test

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

func hash(t *testing.T, change func(*store.RunSpec)) string {
	t.Helper()
	s := store.RunSpec{
		Mode: store.RunExecute, MaxMessages: 10, MaxReplaysPerMessage: 3,
		Filter: store.DeadLetterFilter{
			Categories: []message.Category{"EXTERNAL", "TIMEOUT"},
			DiedBefore: time.Date(2026, 9, 21, 10, 0, 0, 0, time.UTC),
			IDs:        []int64{3, 1},
		},
	}
	change(&s)
	sum, err := replay.Hash(s)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Runs are recorded with this hash: another one would make every recorded run a stranger to its manifest.
func TestHashIsForEver(t *testing.T) {
	t.Parallel()
	const want = "sha256:953ec9e742cd93bf6358d3d92d9b3e48c833683d7e3b4dba9e241c87820cf8f5"
	if got := hash(t, func(*store.RunSpec) {}); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func TestHashIgnoresWhatDecidesNothing(t *testing.T) {
	t.Parallel()
	want := hash(t, func(*store.RunSpec) {})
	for name, change := range map[string]func(*store.RunSpec){
		"order of categories": func(s *store.RunSpec) {
			s.Filter.Categories = []message.Category{"TIMEOUT", "EXTERNAL"}
		},
		"repeated id": func(s *store.RunSpec) { s.Filter.IDs = []int64{1, 3, 3} },
		"zone": func(s *store.RunSpec) {
			s.Filter.DiedBefore = s.Filter.DiedBefore.In(time.FixedZone("CEST", 7200))
		},
		"rate":       func(s *store.RunSpec) { s.MessagesPerSecond = 50 },
		"key":        func(s *store.RunSpec) { s.Key.RunID = "2" },
		"empty list": func(s *store.RunSpec) { s.Filter.Fingerprints = []string{} },
	} {
		if got := hash(t, change); got != want {
			t.Errorf("%s changes the hash", name)
		}
	}
}

func TestHashTellsSpecsApart(t *testing.T) {
	t.Parallel()
	zero := 0
	seen := map[string]string{hash(t, func(*store.RunSpec) {}): "nothing"}
	for name, change := range map[string]func(*store.RunSpec){
		"mode":        func(s *store.RunSpec) { s.Mode = store.RunPreview },
		"category":    func(s *store.RunSpec) { s.Filter.Categories = s.Filter.Categories[:1] },
		"fingerprint": func(s *store.RunSpec) { s.Filter.Fingerprints = []string{"ab"} },
		"error class": func(s *store.RunSpec) { s.Filter.ErrorClass = "Timeout" },
		"reason":      func(s *store.RunSpec) { s.Filter.ReasonContains = "Timeout" },
		"version":     func(s *store.RunSpec) { s.Filter.ConsumerVersions = []string{"Timeout"} },
		"after":       func(s *store.RunSpec) { s.Filter.DiedAfter = s.Filter.DiedBefore },
		"before":      func(s *store.RunSpec) { s.Filter.DiedBefore = s.Filter.DiedBefore.Add(time.Second) },
		"replays":     func(s *store.RunSpec) { s.Filter.ReplayCount = &zero },
		"header":      func(s *store.RunSpec) { s.Filter.Headers = []message.Header{{Name: "a", Value: "b"}} },
		"expression":  func(s *store.RunSpec) { s.Plan.Expression = "true" },
		"target":      func(s *store.RunSpec) { s.Plan.Target = "true" },
		"transform":   func(s *store.RunSpec) { s.Plan.Transform.Program = "true" },
		"canary":      func(s *store.RunSpec) { s.Plan.Canary.Messages = 1 },
		"abort":       func(s *store.RunSpec) { s.Plan.Abort.RedeathPercent = 1 },
		"ids":         func(s *store.RunSpec) { s.Filter.IDs = []int64{1} },
		"messages":    func(s *store.RunSpec) { s.MaxMessages = 11 },
		"replay cap":  func(s *store.RunSpec) { s.MaxReplaysPerMessage = 4 },
	} {
		sum := hash(t, change)
		if other, ok := seen[sum]; ok {
			t.Errorf("changing %s and changing %s give the same hash", name, other)
		}
		seen[sum] = name
	}
}
