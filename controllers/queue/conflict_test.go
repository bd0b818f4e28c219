package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/pgtest"
	"deadletter.dev/deadletter/internal/store"
)

func named(name string) func(*v1alpha1.Queue) {
	return func(q *v1alpha1.Queue) { q.Spec.QueueName = name }
}

func TestSecondQueueOfOneNameTakesOverWhenTheFirstGoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.create("first", named("\u00fcber"))
	f.awaitReady(first)
	second := f.create("second", func(q *v1alpha1.Queue) {
		q.Spec.QueueName, q.Spec.MaxRetries = "u\u0308ber", 9
	})
	text := f.awaitRefused(second, v1alpha1.ReasonConflict, kstatus.FailedStatus)
	if !strings.Contains(text, `"first"`) || !strings.Contains(text, "takes over") {
		t.Errorf("message says %q", text)
	}
	f.owned("über", first, message.DefaultSettings().MaxRetries)
	f.remove(first)
	f.awaitReady(second)
	f.owned("über", second, 9)
}

// owned checks whose settings the database has.
func (f *fixture) owned(name string, by *v1alpha1.Queue, maxRetries int) {
	f.t.Helper()
	info, err := f.Store.Queue(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	if (info.Owner != store.Owner{Namespace: by.Namespace, Name: by.Name}) || info.Settings.MaxRetries != maxRetries {
		f.t.Errorf("queue %q belongs to %+v with %+v", name, info.Owner, info.Settings)
	}
}

func TestSameNameOnAnotherBrokerIsAnotherQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := types.NamespacedName{Namespace: f.Namespace, Name: "other"}
	f.Connect(t, other, pgtest.Database(t))
	f.CreateBroker(t, other, v1alpha1.AllowedNamespaces{})
	f.awaitReady(f.create("here", named("orders")))
	f.awaitReady(f.create("there", func(q *v1alpha1.Queue) {
		q.Spec.QueueName, q.Spec.BrokerRef.Name = "orders", other.Name
	}))
}

func TestQueuesCreatedTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const rivals = 6
	queues := make([]*v1alpha1.Queue, rivals)
	for i := range queues {
		queues[i] = f.create(fmt.Sprintf("rival-%d", i), named("orders"))
	}
	// However they were seen, one wins, the rest say so, and deleting winners one after the other serves all.
	for left := rivals; left > 0; left-- {
		winner := f.awaitOneWinner(queues)
		f.owned("orders", winner, message.DefaultSettings().MaxRetries)
		f.remove(winner)
		f.awaitGone(winner.DeepCopy())
		for i, q := range queues {
			if q == winner {
				queues = append(queues[:i], queues[i+1:]...)
				break
			}
		}
	}
}

func (f *fixture) awaitOneWinner(queues []*v1alpha1.Queue) (winner *v1alpha1.Queue) {
	f.t.Helper()
	f.eventually(func() error {
		winner = nil
		losers := 0
		for _, q := range queues {
			f.read(q)
			switch {
			case reasonOf(q, v1alpha1.ConditionReady) == v1alpha1.ReasonReady:
				winner = q
			case reasonOf(q, v1alpha1.ConditionAccepted) == v1alpha1.ReasonConflict:
				losers++
			}
		}
		if winner == nil || losers != len(queues)-1 {
			return fmt.Errorf("winner %v, %d losers of %d", winner, losers, len(queues))
		}
		return nil
	})
	return winner
}

func reasonOf(q *v1alpha1.Queue, conditionType string) string {
	for _, condition := range q.Status.Conditions {
		if condition.Type == conditionType {
			return condition.Reason
		}
	}
	return ""
}

// A grant that comes late must not take a queue from the one that works with it.
func TestHolderKeepsTheQueueFromAnOlderOne(t *testing.T) {
	t.Parallel()
	f, shared := withPlatform(t, selecting("red"))
	f.start(shared.Namespace)
	older := f.create("older", func(q *v1alpha1.Queue) {
		refTo(shared)(q)
		q.Spec.QueueName = "orders"
	})
	f.awaitRefused(older, v1alpha1.ReasonRefNotPermitted, kstatus.FailedStatus)
	// Creation times have seconds: wait for the next one, so that "older" means something.
	f.eventually(func() error {
		if time.Since(older.CreationTimestamp.Time) < 2*time.Second {
			return errors.New("too early")
		}
		return nil
	})
	holder := &v1alpha1.Queue{}
	holder.Namespace, holder.Name, holder.Spec.QueueName = shared.Namespace, "holder", "orders"
	holder.Spec.BrokerRef.Name = shared.Name
	if err := f.Client.Create(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	f.awaitReady(holder)
	f.label(map[string]string{teamLabel: "red"})
	text := f.awaitRefused(older, v1alpha1.ReasonConflict, kstatus.FailedStatus)
	if strings.Contains(text, "holder") || strings.Contains(text, f.Namespace) {
		t.Errorf("the message names a Queue of another namespace: %s", text)
	}
	f.awaitReady(holder)
}

func TestLoserTakesOverWhenTheHolderIsNoLongerAdmitted(t *testing.T) {
	t.Parallel()
	f, shared := withPlatform(t, selecting("red"))
	f.label(map[string]string{teamLabel: "red"})
	f.start(shared.Namespace)
	holder := f.create("holder", func(q *v1alpha1.Queue) {
		refTo(shared)(q)
		q.Spec.QueueName = "orders"
	})
	f.awaitReady(holder)
	loser := &v1alpha1.Queue{}
	loser.Namespace, loser.Name, loser.Spec.QueueName = shared.Namespace, "loser", "orders"
	loser.Spec.BrokerRef.Name = shared.Name
	if err := f.Client.Create(t.Context(), loser); err != nil {
		t.Fatal(err)
	}
	f.awaitRefused(loser, v1alpha1.ReasonConflict, kstatus.FailedStatus)
	f.label(map[string]string{teamLabel: "blue"})
	f.awaitRefused(holder, v1alpha1.ReasonRefNotPermitted, kstatus.FailedStatus)
	f.awaitReady(loser)
	f.owned("orders", loser, message.DefaultSettings().MaxRetries)
}

func TestLoserDeletesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.create("first", named("orders"))
	f.awaitReady(first)
	f.Enqueue(t, "orders", 3)
	loser := f.create("loser", func(q *v1alpha1.Queue) {
		q.Spec.QueueName, q.Spec.DeletionPolicy = "orders", v1alpha1.QueueDeletionDelete
	})
	f.awaitRefused(loser, v1alpha1.ReasonConflict, kstatus.FailedStatus)
	f.remove(loser)
	f.awaitGone(loser)
	if depth := f.Depth(t, "orders"); depth.Pending != 3 {
		t.Errorf("depth is %+v", depth)
	}
	f.awaitReady(first)
}
