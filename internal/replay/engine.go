package replay

import (
	"context"
	"sync"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// idlePace is how long the pace of a run is remembered that nobody steps any more.
const idlePace = 10 * time.Minute

// Runs moves letters, in one transaction per call; *store.Store does.
type Runs interface {
	StepRun(ctx context.Context, id int64, batch int) (store.Run, error)
}

// Engine steps runs. It is safe for concurrent use; steps of one run take turns.
type Engine struct {
	now func() time.Time

	mu    sync.Mutex
	paces map[store.RunKey]*pace
}

// NewEngine returns an Engine that keeps time by now.
func NewEngine(now func() time.Time) *Engine {
	return &Engine{now: now, paces: map[store.RunKey]*pace{}}
}

// Step moves letters of the run until it is finished, its rate asks for a pause, or budget is used up. It returns the
// run as it is now, and how long to wait before the next step; it never waits itself. After an error the run is as it
// was last known: the batch in question may or may not have been moved, and a later step goes on from whatever is true.
func (e *Engine) Step(ctx context.Context, runs Runs, run store.Run, budget time.Duration) (
	store.Run, time.Duration, error,
) {
	pace := e.pace(run.Key)
	pace.mu.Lock()
	defer pace.mu.Unlock()
	for deadline := e.now().Add(budget); run.State == store.RunRunning; {
		began := e.now()
		batch, wait := pace.next(began, run.MessagesPerSecond)
		if batch == 0 {
			return run, wait, nil
		}
		after, err := runs.StepRun(ctx, run.ID, batch)
		if err != nil {
			pace.failed(batch)
			return run, 0, err
		}
		pace.moved(batch, after.Replayed-run.Replayed, e.now().Sub(began))
		run = after
		if !e.now().Before(deadline) {
			break
		}
	}
	if run.State != store.RunRunning {
		e.Forget(run.Key)
	}
	return run, 0, nil
}

// Forget drops the pace of a run: one that was held back starts again without a burst.
func (e *Engine) Forget(key store.RunKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.paces, key)
}

func (e *Engine) pace(key store.RunKey) *pace {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for other, p := range e.paces {
		if now.Sub(p.used) > idlePace {
			delete(e.paces, other)
		}
	}
	p, ok := e.paces[key]
	if !ok {
		p = newPace()
		e.paces[key] = p
	}
	p.used = now
	return p
}
