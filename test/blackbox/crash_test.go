package blackbox_test

import (
	"syscall"
	"testing"
	"time"
)

const (
	kills = 4
	// between is how many messages are accepted and finished between two kills.
	between = 150
)

func TestNothingIsLostWhenTheAPIIsKilled(t *testing.T) {
	t.Parallel()
	db := startPostgres(t)
	apis := []*api{startAPI(t, db), startAPI(t, db)}
	l := startLoad(t, apis...)
	for n := range kills {
		l.await(between)
		victim := apis[n%len(apis)]
		victim.kill9()
		l.await(between / 10) // The other one goes on alone.
		victim.start()
		victim.awaitReady()
	}
	l.await(between)
	l.drainAndCheck()
}

func TestNothingIsLostWhenPostgresIsKilled(t *testing.T) {
	t.Parallel()
	db := startPostgres(t)
	a := startAPI(t, db)
	l := startLoad(t, a)
	for range kills {
		l.await(between)
		if err := db.Kill9(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		if err := db.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.ledger.crash(killed)
		a.awaitReady() // By itself: nobody restarts the API.
	}
	l.await(between)
	l.drainAndCheck()
}

// TestDrainLosesNothing: after SIGTERM the process ends by itself and well, and every message that is leased then is in
// the hands of a worker that knows it.
func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	db := startPostgres(t)
	apis := []*api{startAPI(t, db), startAPI(t, db)}
	l := startLoad(t, apis[0])
	for range kills {
		l.await(between)
		if err := apis[0].signal(syscall.SIGTERM); err != nil {
			t.Fatalf("the API ends with %v", err)
		}
		watcher := &load{t: t, apis: apis[1:], ledger: l.ledger}
		leased := watcher.readAll("processing")
		eventually(t, "every leased message to be known to a worker", func() bool {
			_, _, held := l.ledger.snapshot()
			for id := range leased {
				if _, known := held[id]; !known {
					return false
				}
			}
			return true
		})
		apis[0].start()
		apis[0].awaitReady()
	}
	l.drainAndCheck()
}
