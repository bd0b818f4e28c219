package replay_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/queue/queuetest"
	"deadletter.dev/deadletter/controllers/replay"
	engine "deadletter.dev/deadletter/internal/replay"
	"deadletter.dev/deadletter/internal/store"
)

// handClock is a clock that moves when it is told to.
type handClock struct{ now time.Time }

func (c *handClock) Now() time.Time { return c.now }

// bare is a fixture without controllers, with letters and a run on record.
func bare(t *testing.T) (*fixture, store.Run) {
	t.Helper()
	f := &fixture{Cluster: queuetest.New(t), t: t}
	f.Bury(t, orders, 30, external)
	run, _, err := f.Store.StartRun(t.Context(), store.RunSpec{
		Key: f.key("1"), Hash: "sha256:0", Mode: store.RunExecute, MaxMessages: 100, MaxReplaysPerMessage: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, run
}

func TestRunWithoutReplayIsCancelledAfterItsGrace(t *testing.T) {
	t.Parallel()
	f, run := bare(t)
	clock := &handClock{now: time.Now()}
	orphans := replay.NewOrphans(f.Client, f.Client, f.Registry, engine.NewEngine(clock.Now), clock.Now)
	look := func() store.RunState {
		t.Helper()
		if err := replay.Look(t.Context(), orphans, f.Broker, f.Store); err != nil {
			t.Fatal(err)
		}
		return f.run("1").State
	}
	if got := look(); got != store.RunRunning {
		t.Fatalf("the run is %s at first sight", got)
	}
	clock.now = clock.now.Add(50 * time.Second)
	if got := look(); got != store.RunRunning {
		t.Fatalf("the run is %s within its grace", got)
	}
	clock.now = clock.now.Add(20 * time.Second)
	if got := look(); got != store.RunCancelled {
		t.Fatalf("the run is %s after its grace", got)
	}
	f.depth(0, run.Remaining)
}

func TestRunWithReplayIsLeftAlone(t *testing.T) {
	t.Parallel()
	f, _ := bare(t)
	clock := &handClock{now: time.Now()}
	orphans := replay.NewOrphans(f.Client, f.Client, f.Registry, engine.NewEngine(clock.Now), clock.Now)
	look := func() {
		t.Helper()
		if err := replay.Look(t.Context(), orphans, f.Broker, f.Store); err != nil {
			t.Fatal(err)
		}
	}
	look()
	// The Replay comes back within the grace, and goes again: the grace starts anew.
	object := f.create(nil)
	clock.now = clock.now.Add(time.Hour)
	look()
	if err := f.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	clock.now = clock.now.Add(time.Hour)
	look()
	if got := f.run("1").State; got != store.RunRunning {
		t.Fatalf("the run is %s", got)
	}
	f.depth(0, 30)
}

func TestCacheThatIsBehindDoesNotCancel(t *testing.T) {
	t.Parallel()
	f, _ := bare(t)
	clock := &handClock{now: time.Now()}
	f.create(nil)
	// What the cache does not have yet, the API server has.
	orphans := replay.NewOrphans(behind{f.Client}, f.Client, f.Registry, engine.NewEngine(clock.Now), clock.Now)
	for range 3 {
		if err := replay.Look(t.Context(), orphans, f.Broker, f.Store); err != nil {
			t.Fatal(err)
		}
		clock.now = clock.now.Add(time.Hour)
	}
	if got := f.run("1").State; got != store.RunRunning {
		t.Fatalf("the run is %s", got)
	}
}

func TestDetachedRunIsDrivenWithoutReplay(t *testing.T) {
	t.Parallel()
	f, run := bare(t)
	if err := f.Store.DetachRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	orphans := replay.NewOrphans(f.Client, f.Client, f.Registry, engine.NewEngine(time.Now), time.Now)
	if err := replay.Look(t.Context(), orphans, f.Broker, f.Store); err != nil {
		t.Fatal(err)
	}
	if got := f.run("1"); got.State != store.RunCompleted || got.Replayed != 30 {
		t.Fatalf("the run ended as %+v", got)
	}
	f.depth(30, 0)
}

// behind is a cache that has not heard of anything yet.
type behind struct{ client.Reader }

func (behind) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.GroupName, Resource: "replays"}, key.Name)
}
