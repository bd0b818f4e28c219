package replay

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

const (
	orphanInterval = 5 * time.Second
	// orphanGrace is how long a run may be without its Replay before it is cancelled: time enough to replace an object.
	orphanGrace = time.Minute
)

// orphans looks after the runs that no Replay looks after: detached ones go on to their end, and ones whose Replay went
// without a word, because it could not reach the database or lost its finalizer, are cancelled.
type orphans struct {
	cached   client.Reader
	live     client.Reader
	registry *databases.Registry
	engine   *replay.Engine
	now      func() time.Time

	mu sync.Mutex
	// driven are the detached runs that are being stepped.
	driven map[orphan]bool
	// missed is since when a run has been without its Replay.
	missed map[orphan]time.Time
}

// orphan names a run of a Broker.
type orphan struct {
	broker types.NamespacedName
	id     int64
}

// NeedLeaderElection keeps it to one process.
func (o *orphans) NeedLeaderElection() bool { return true }

// Start looks after runs until the context ends.
func (o *orphans) Start(ctx context.Context) error {
	ticker := time.NewTicker(orphanInterval)
	defer ticker.Stop()
	var drivers sync.WaitGroup
	defer drivers.Wait()
	for {
		for broker, db := range o.registry.Connected() {
			if err := o.look(ctx, broker, db, &drivers); err != nil && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Error(err, "Runs without a Replay are not looked after", "broker", broker.String())
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look goes through the active runs of one Broker.
func (o *orphans) look(
	ctx context.Context, broker types.NamespacedName, db *store.Store, drivers *sync.WaitGroup,
) error {
	bounded, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	active, err := db.ActiveRuns(bounded)
	if err != nil {
		return err
	}
	seen := make(map[orphan]bool, len(active))
	for _, run := range active {
		name := orphan{broker, run.ID}
		seen[name] = true
		switch {
		case run.Detached:
			if o.take(name) {
				drivers.Go(func() { o.drive(ctx, name, db, run) })
			}
		case o.isOverdue(ctx, name, run):
			if err := o.cancel(bounded, db, run); err != nil {
				return err
			}
		}
	}
	o.forgetUnseen(broker, seen)
	return nil
}

func (o *orphans) take(name orphan) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.driven[name] {
		return false
	}
	o.driven[name] = true
	return true
}

// drive steps a detached run until it is over, attached again, or fails; after a failure the next look starts anew.
func (o *orphans) drive(ctx context.Context, name orphan, db replay.Runs, run store.Run) {
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.driven, name)
	}()
	log := ctrl.LoggerFrom(ctx).WithValues("broker", name.broker.String(), "run", run.Key.String())
	for run.State == store.RunRunning && run.Detached {
		after, wait, err := o.engine.Step(ctx, db, run, stepBudget)
		if err != nil {
			if ctx.Err() == nil {
				log.Error(err, "A detached run is held up")
			}
			return
		}
		run = after
		timer := time.NewTimer(max(wait, atOnce))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
	if run.State == store.RunCompleted {
		log.Info("A detached run is over", "matched", run.Matched, "replayed", run.Replayed, "skipped", run.Skipped,
			"beyondLimit", run.BeyondLimit)
	}
}

// isOverdue tells whether a run has been without its Replay for long enough.
func (o *orphans) isOverdue(ctx context.Context, name orphan, run store.Run) bool {
	if o.hasReplay(ctx, o.cached, run) {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.missed, name)
		return false
	}
	o.mu.Lock()
	since, known := o.missed[name]
	if !known {
		o.missed[name] = o.now()
	}
	o.mu.Unlock()
	// The API server has the last word.
	return known && o.now().Sub(since) >= orphanGrace && !o.hasReplay(ctx, o.live, run)
}

// hasReplay tells whether the Replay of a run exists. Only a clear answer that it does not counts.
func (o *orphans) hasReplay(ctx context.Context, reader client.Reader, run store.Run) bool {
	var object v1alpha1.Replay
	err := reader.Get(ctx, client.ObjectKey{Namespace: run.Key.Namespace, Name: run.Key.Name}, &object)
	return !apierrors.IsNotFound(err)
}

func (o *orphans) cancel(ctx context.Context, db *store.Store, run store.Run) error {
	cancelled, err := db.CancelRun(ctx, run.ID)
	if err != nil {
		return err
	}
	o.engine.Forget(run.Key)
	ctrl.LoggerFrom(ctx).Info("Cancelled a run whose Replay is gone", "run", run.Key.String(),
		"replayed", cancelled.Replayed, "skipped", cancelled.Skipped, "remaining", cancelled.Remaining)
	return nil
}

// forgetUnseen drops what is known of runs of a Broker that are over.
func (o *orphans) forgetUnseen(broker types.NamespacedName, seen map[orphan]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.missed {
		if name.broker == broker && !seen[name] {
			delete(o.missed, name)
		}
	}
}
