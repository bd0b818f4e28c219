package replay_test

import (
	"math"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

// handClock is a clock that moves when it is told to.
type handClock struct{ now time.Time }

func (c *handClock) Now() time.Time { return c.now }

// walk steps a run for a time, at its beginning and end too, sleeping on the clock as it is told plus late.
func walk(t *testing.T, engine *replay.Engine, clock *handClock, db replay.Runs, run store.Run,
	late, during time.Duration,
) store.Run {
	t.Helper()
	for end := clock.now.Add(during); run.State == store.RunRunning && clock.now.Before(end); {
		after, wait, err := engine.Step(t.Context(), db, run, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		clock.now = clock.now.Add(min(wait+late, end.Sub(clock.now)))
		run = after
	}
	after, _, err := engine.Step(t.Context(), db, run, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func TestRateIsKeptWithinFivePercent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rate   int
		late   time.Duration
		during time.Duration
	}{
		"slow":                 {rate: 1, during: 60 * time.Second},
		"uneven":               {rate: 7, during: 20 * time.Second},
		"fast":                 {rate: 400, during: 5 * time.Second},
		"steps come late":      {rate: 50, late: 700 * time.Millisecond, during: 20 * time.Second},
		"more than one batch":  {rate: 1200, during: 3 * time.Second},
		"late with large rate": {rate: 400, late: time.Second, during: 5 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := float64(test.rate) * test.during.Seconds()
			f := newFixture(t)
			f.bury(t, int(want)+test.rate, "EXTERNAL")
			s := spec("1")
			s.MessagesPerSecond = test.rate
			clock := &handClock{now: time.Unix(1000, 0)}
			run := walk(t, replay.NewEngine(clock.Now), clock, f.store, f.start(t, s), test.late, test.during)
			slack := max(0.05*want, 1)
			if math.Abs(float64(run.Replayed)-want) > slack {
				t.Fatalf("replayed %d in %s, want %.0f within %.0f", run.Replayed, test.during, want, slack)
			}
			if float64(run.Replayed) > want {
				t.Fatalf("replayed %d in %s, more than the %.0f that the rate allows", run.Replayed, test.during, want)
			}
		})
	}
}

func TestRateChangesWhileRunning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bury(t, 1500, "EXTERNAL")
	s := spec("1")
	s.MessagesPerSecond = 20
	clock := &handClock{now: time.Unix(1000, 0)}
	engine := replay.NewEngine(clock.Now)
	run := walk(t, engine, clock, f.store, f.start(t, s), 0, 10*time.Second)
	first := run.Replayed
	if first < 190 || first > 200 {
		t.Fatalf("replayed %d in 10 s at 20/s", first)
	}
	if err := f.store.SetRunRate(t.Context(), run.ID, 100); err != nil {
		t.Fatal(err)
	}
	run.MessagesPerSecond = 100
	run = walk(t, engine, clock, f.store, run, 0, 10*time.Second)
	if second := run.Replayed - first; second < 950 || second > 1010 {
		t.Fatalf("replayed %d in 10 s at 100/s", second)
	}
	if err := f.store.SetRunRate(t.Context(), run.ID, 0); err != nil {
		t.Fatal(err)
	}
	run.MessagesPerSecond = 0
	if run = finish(t, engine, f.store, run); run.Replayed != 1500 {
		t.Fatalf("run ended as %+v", run)
	}
}

func TestForgottenRunStartsAgainWithoutBurst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bury(t, 1000, "EXTERNAL")
	s := spec("1")
	s.MessagesPerSecond = 40
	clock := &handClock{now: time.Unix(1000, 0)}
	engine := replay.NewEngine(clock.Now)
	run := walk(t, engine, clock, f.store, f.start(t, s), 0, 5*time.Second)
	before := run.Replayed
	clock.now = clock.now.Add(time.Hour)
	engine.Forget(run.Key)
	run, wait, err := engine.Step(t.Context(), f.store, run, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if run.Replayed != before || wait <= 0 {
		t.Fatalf("replayed %d at once after a pause, wait %s", run.Replayed-before, wait)
	}
}

func TestLostTimeIsCaughtUpOnlyABit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.bury(t, 1000, "EXTERNAL")
	s := spec("1")
	s.MessagesPerSecond = 40
	clock := &handClock{now: time.Unix(1000, 0)}
	engine := replay.NewEngine(clock.Now)
	run := walk(t, engine, clock, f.store, f.start(t, s), 0, time.Second)
	before := run.Replayed
	clock.now = clock.now.Add(5 * time.Minute)
	run, _, err := engine.Step(t.Context(), f.store, run, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if burst := run.Replayed - before; burst > 80 {
		t.Fatalf("replayed %d at once after a stall, more than 2 s at 40/s", burst)
	}
}
