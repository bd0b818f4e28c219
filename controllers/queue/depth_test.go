package queue_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/queue"
	"deadletter.dev/deadletter/controllers/queue/queuetest"
)

// shows tells whether kubectl's columns are these.
func (f *fixture) shows(object *v1alpha1.Queue, pending, processing, dead int64) error {
	if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	messages, letters := object.Status.Messages, object.Status.DeadLetters
	if messages.Pending == nil || letters.Count == nil {
		return errors.New("no depth yet")
	}
	if *messages.Pending != pending || *messages.Processing != processing || *letters.Count != dead {
		return fmt.Errorf("pending %d, processing %d, dead %d, want %d, %d, %d",
			*messages.Pending, *messages.Processing, *letters.Count, pending, processing, dead)
	}
	if (letters.OldestTime == nil) != (dead == 0) {
		return fmt.Errorf("oldest is %v with %d dead", letters.OldestTime, dead)
	}
	return nil
}

func TestDepthIsRightWithinTenSeconds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", nil)
	f.awaitReady(object)
	g := gomega.NewWithT(t)
	// A second more than promised, for the API server on a busy machine.
	for _, step := range []struct {
		change                    func()
		pending, processing, dead int64
	}{
		{func() { f.Enqueue(t, "orders", 200) }, 200, 0, 0},
		{func() { f.Kill(t, "orders", 40, "EXTERNAL") }, 160, 0, 40},
		{func() { f.Claim(t, "orders", 1) }, 159, 1, 40},
		{func() { f.Kill(t, "orders", 1, "EXTERNAL") }, 158, 1, 41},
	} {
		step.change()
		g.Eventually(func() error { return f.shows(object, step.pending, step.processing, step.dead) },
			11*time.Second, every).Should(gomega.Succeed())
	}
	letters, err := f.Store.Queue(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := object.Status.DeadLetters.OldestTime.Unix(), letters.Depth.OldestDeadAt.Unix(); got != want {
		t.Errorf("the oldest died at %d, want %d", got, want)
	}
}

func TestDepthIsQuietWhenNothingChanges(t *testing.T) {
	t.Parallel()
	f := &fixture{Cluster: queuetest.New(t), t: t}
	lost := make(chan event.TypedGenericEvent[types.NamespacedName], 10)
	var mgr ctrl.Manager
	f.Start(t, func(m ctrl.Manager) error {
		mgr = m
		return queue.Setup(m, f.Registry, f.defaultBroker)
	})
	object := f.create("orders", nil)
	f.awaitReady(object)
	f.Enqueue(t, "orders", 5)
	f.Kill(t, "orders", 2, "EXTERNAL")
	f.eventually(func() error { return f.shows(object, 3, 0, 2) })
	db, err := f.Registry.Get(f.Broker)
	if err != nil {
		t.Fatal(err)
	}
	reader := queue.NewDepths(mgr.GetClient(), f.Registry, lost)
	f.eventually(func() error {
		f.Writes.Reset()
		if err := queue.Refresh(reader, t.Context(), f.Broker, db); err != nil {
			return err
		}
		if got := f.Writes.List(); len(got) > 0 {
			return errors.New(got[0])
		}
		return nil
	})
	// Only a reading that is old enough could be written again.
	f.eventually(func() error {
		f.read(object)
		age := f.Depth(t, "orders").ObservedAt.Sub(object.Status.Messages.ObservedTime.Time)
		if age < 10*time.Second {
			return fmt.Errorf("the reading in status is only %s old", age)
		}
		return nil
	})
	for range 3 {
		if err := queue.Refresh(reader, t.Context(), f.Broker, db); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Writes.List(); len(got) > 0 {
		t.Errorf("wrote %q", got)
	}
	if len(lost) > 0 {
		t.Error("a queue that is there is reported as lost")
	}
}

func TestDepthIsWrittenAtMostEveryEightSeconds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", nil)
	f.awaitReady(object)
	var seen []time.Time
	for n := int64(1); len(seen) < 3; n *= 2 {
		f.Enqueue(t, "orders", int(n))
		f.eventually(func() error {
			f.read(object)
			at := object.Status.Messages.ObservedTime
			if at == nil || len(seen) > 0 && at.Time.Equal(seen[len(seen)-1]) {
				return errors.New("not written yet")
			}
			seen = append(seen, at.Time)
			return nil
		})
	}
	for i := 1; i < len(seen); i++ {
		// Times in status are cut to the second, which takes away at most one.
		if apart := seen[i].Sub(seen[i-1]); apart < 7*time.Second {
			t.Errorf("written twice within %s", apart)
		}
	}
}
