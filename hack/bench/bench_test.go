package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/scenario"
	"deadletter.dev/deadletter/hack/bench/internal/server"
)

// TestEveryScenarioRuns runs all of them against the real binary and Postgres, each as briefly as can be.
func TestEveryScenarioRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles the product and starts Postgres")
	}
	dir := t.TempDir()
	binary, err := server.Build(t.Context(), "../..", dir)
	if err != nil {
		t.Fatal(err)
	}
	opts := options{
		Options: scenario.Options{
			Binary: binary, Out: dir, Cache: dir, Only: map[string]bool{"plain table": true},
			Measure: 300 * time.Millisecond, Warm: 100 * time.Millisecond, Pin: time.Second,
			Pending: 3000, Dead: 1000, IdleQueues: 20, LongPolls: 10, BatchClients: 2,
		},
		scenarios: scenario.All,
	}
	var out strings.Builder
	progress := report.NewProgress(t.Output(), quietLimit)
	defer progress.Stop()
	if err := measureAll(t.Context(), opts, progress, &out); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, report.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var results map[string]struct {
		Ours  report.Figures            `json:"ours"`
		Peers map[string]report.Figures `json:"peers"`
	}
	if err := json.Unmarshal(content, &results); err != nil {
		t.Fatal(err)
	}
	for _, s := range scenario.All {
		if _, err := os.Stat(filepath.Join(dir, s.ID+".svg")); err != nil {
			t.Error(err)
		}
		if !strings.Contains(out.String(), "\n"+s.ID+"  ") {
			t.Errorf("no table of %s", s.ID)
		}
	}
	for _, id := range []string{"P1", "P2", "P4", "P5"} {
		ours, peer := results[id].Ours, results[id].Peers["plain table"]
		if ours.Messages == 0 || ours.WALBytesPerMessage < payloadSize || ours.ServerCPUMicros == 0 || peer.Messages == 0 {
			t.Errorf("%s: ours %+v, plain table %+v", id, ours, peer)
		}
	}
	if results["P6"].Ours.P50Millis == 0 || results["P8"].Ours.Other["wake-up ms"] == 0 {
		t.Errorf("P6: %+v, P8: %+v", results["P6"].Ours, results["P8"].Ours)
	}
}

// payloadSize is what the log holds of a message at least: its payload.
const payloadSize = 200
