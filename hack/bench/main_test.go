package main

import (
	"testing"
	"time"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	chosen, err := choose("P4, P1")
	if err != nil || len(chosen) != 2 || chosen[0].ID != "P1" || chosen[1].ID != "P4" {
		t.Errorf("got %v, %v", chosen, err)
	}
	if all, err := choose(""); err != nil || len(all) < 7 {
		t.Errorf("got %d of all, %v", len(all), err)
	}
	if _, err := choose("P1,P99"); err == nil {
		t.Error("a scenario that there is not was accepted")
	}
}

func TestParseScalesTheBacklog(t *testing.T) {
	t.Parallel()
	opts, err := parse([]string{"-scale", "1", "-long"})
	if err != nil || opts.Pending != 10_000_000 || opts.Dead != 1_000_000 || opts.Pin != 10*time.Minute {
		t.Errorf("got %+v, %v", opts.Options, err)
	}
	if opts, err = parse(nil); err != nil || opts.Pending != 1_000_000 || opts.Dead != 100_000 || opts.Pin != time.Minute {
		t.Errorf("defaults: got %+v, %v", opts.Options, err)
	}
}
