package replay

import (
	"context"
	"sync"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// idlePace is how long the pace of a run is remembered that nobody steps any more.
const idlePace = 10 * time.Minute

// canaryPoll is how often a run looks for the end of its canary.
const canaryPoll = time.Second

// Runs moves letters and follows them, in one transaction per call; *store.Store does.
type Runs interface {
	StepRun(ctx context.Context, id int64, batch int, edit store.Edit) (store.Run, error)
	FollowRun(ctx context.Context, id int64) (store.Run, error)
	PassCanary(ctx context.Context, id int64) error
	AbortRun(ctx context.Context, id int64, reason string) (store.Run, error)
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

// Step moves letters of the run until it is finished, its rate or its canary asks for a pause, or budget is used up. It
// returns the run as it is now, and how long to wait before the next step; it never waits itself. After an error the
// run is as it was last known: the batch in question may or may not have been moved, and a later step goes on from
// whatever is true.
func (e *Engine) Step(ctx context.Context, runs Runs, run store.Run, budget time.Duration) (
	store.Run, time.Duration, error,
) {
	edit, err := editOf(run.Plan.Transform)
	if err != nil {
		return run, 0, err
	}
	pace := e.pace(run.Key)
	pace.mu.Lock()
	defer pace.mu.Unlock()
	for deadline := e.now().Add(budget); run.State == store.RunRunning; {
		after, goOn, err := follow(ctx, runs, run)
		if run = after; err != nil || run.State != store.RunRunning {
			return e.end(run, err)
		}
		if !goOn {
			return run, canaryPoll, nil
		}
		began := e.now()
		batch, wait := pace.next(began, run.MessagesPerSecond)
		if batch == 0 {
			return run, wait, nil
		}
		after, err = runs.StepRun(ctx, run.ID, batch, edit)
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
	return e.end(run, nil)
}

// end forgets the pace of a run that is over.
func (e *Engine) end(run store.Run, err error) (store.Run, time.Duration, error) {
	if err == nil && run.State != store.RunRunning {
		e.Forget(run.Key)
	}
	return run, 0, err
}

// follow has a run that depends on outcomes do what they ask for, and tells whether more letters may be replayed.
func follow(ctx context.Context, runs Runs, run store.Run) (after store.Run, goOn bool, err error) {
	if run.Plan.Canary.Messages == 0 && run.Plan.Abort.RedeathPercent == 0 {
		return run, true, nil
	}
	if after, err = runs.FollowRun(ctx, run.ID); err != nil {
		return run, false, err
	}
	switch verdict, reason := judge(after); verdict {
	case abort:
		if run, err = runs.AbortRun(ctx, after.ID, reason); err != nil {
			return after, false, err
		}
		return run, false, nil
	case pass:
		if err := runs.PassCanary(ctx, after.ID); err != nil {
			return after, false, err
		}
		after, err = runs.FollowRun(ctx, after.ID)
		return after, err == nil && after.CanaryPassedAt != nil, err
	case hold:
		return after, false, nil
	default:
		return after, true, nil
	}
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
