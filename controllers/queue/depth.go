package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/status"
	"deadletter.dev/deadletter/internal/store"
)

const (
	readTimeout = 5 * time.Second
	writers     = 8
)

// depths brings the depth of all queues into status: one statement per Broker and reading, whatever the number of
// Queues, and a write only where a Queue's numbers have changed enough.
type depths struct {
	client   client.Client
	registry *databases.Registry
	// lost takes the Queues that their database does not know, to be stored again.
	lost chan<- event.TypedGenericEvent[types.NamespacedName]

	budget *rate.Limiter

	mu sync.Mutex
	// busy are the Brokers that are being read, so that a slow one is not read twice at a time.
	busy map[types.NamespacedName]bool
	// failing are the Brokers whose last reading failed, so that the log tells of it once.
	failing map[types.NamespacedName]bool
}

func newDepths(
	c client.Client, registry *databases.Registry, lost chan<- event.TypedGenericEvent[types.NamespacedName],
) *depths {
	return &depths{
		client:   c,
		registry: registry,
		lost:     lost,
		budget:   rate.NewLimiter(smallPerSecond, smallBurst),
		busy:     map[types.NamespacedName]bool{},
		failing:  map[types.NamespacedName]bool{},
	}
}

// NeedLeaderElection keeps it to one process.
func (d *depths) NeedLeaderElection() bool { return true }

// Start reads until the context ends.
func (d *depths) Start(ctx context.Context) error {
	ticker := time.NewTicker(readInterval)
	defer ticker.Stop()
	var readings sync.WaitGroup
	defer readings.Wait()
	for {
		for broker, db := range d.registry.Connected() {
			if d.begin(broker) {
				readings.Go(func() { d.end(ctx, broker, d.refresh(ctx, broker, db)) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (d *depths) begin(broker types.NamespacedName) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[broker] {
		return false
	}
	d.busy[broker] = true
	return true
}

func (d *depths) end(ctx context.Context, broker types.NamespacedName, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, broker)
	log := ctrl.LoggerFrom(ctx).WithValues("broker", broker.String())
	switch {
	case err == nil && d.failing[broker]:
		delete(d.failing, broker)
		log.Info("The depth of queues is read again")
	case err != nil && !d.failing[broker] && ctx.Err() == nil:
		d.failing[broker] = true
		log.Error(err, "The depth of queues in status is not up to date")
	}
}

// refresh reads one Broker and writes what has changed.
func (d *depths) refresh(ctx context.Context, broker types.NamespacedName, db *store.Store) error {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	readings, err := db.Depths(bounded)
	if err != nil {
		return err
	}
	var queues v1alpha1.QueueList
	// The list is only read, and thousands of copies every other second would cost more than everything else here.
	err = d.client.List(ctx, &queues, client.MatchingFields{indexBound: broker.String()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list Queues of Broker: %w", err)
	}
	breakers, err := breakersOf(bounded, db, queues.Items)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range queues.Items {
		queue := &queues.Items[i]
		if !holds(queue, broker) {
			continue
		}
		depth, known := readings[queue.Status.QueueName]
		seen := reading{depth, breakers[queue.Status.QueueName]}
		switch {
		case !known:
			d.report(ctx, queue)
		case d.isDue(queue, seen):
			group.Go(func() error { return d.write(ctx, queue, seen) })
		}
	}
	return group.Wait() //nolint:wrapcheck // the write says what it was doing
}

// reading is what the database says of a queue.
type reading struct {
	store.Depth

	breaker store.BreakerInfo
}

// report has a Queue stored again that the database has lost, by a restore or by hand.
func (d *depths) report(ctx context.Context, queue *v1alpha1.Queue) {
	if !queue.DeletionTimestamp.IsZero() {
		return
	}
	select {
	case d.lost <- event.TypedGenericEvent[types.NamespacedName]{Object: client.ObjectKeyFromObject(queue)}:
	case <-ctx.Done():
	}
}

// isDue decides whether a reading is worth a write now. Times are the database's, on both sides.
func (d *depths) isDue(queue *v1alpha1.Queue, depth reading) bool {
	changed := max(compare(&queue.Status, depth.Depth), compareBreaker(queue.Status.CircuitBreaker, depth.breaker))
	if changed == none {
		return false
	}
	if queue.Status.Messages.ObservedTime == nil {
		return true
	}
	age := depth.ObservedAt.Sub(queue.Status.Messages.ObservedTime.Time)
	return age >= writeInterval &&
		(changed == large || age >= exactWithin || d.budget.AllowN(depth.ObservedAt, 1))
}

// depthPatch is the part of status that belongs to the depth reader. A null removes what no longer applies. The version
// makes the write fail where the Queue has changed since: it may be another one, or no longer be accepted.
type depthPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		Messages    v1alpha1.QueueMessages `json:"messages"`
		DeadLetters deadPatch              `json:"deadLetters"`
		// CircuitBreaker is removed by null.
		CircuitBreaker *v1alpha1.QueueCircuitBreakerStatus `json:"circuitBreaker"`
	} `json:"status"`
}

type deadPatch struct {
	Count        int64        `json:"count"`
	OldestTime   *metav1.Time `json:"oldestTime"`
	ObservedTime metav1.Time  `json:"observedTime"`
}

func (d *depths) write(ctx context.Context, queue *v1alpha1.Queue, depth reading) error {
	observed := metav1.NewTime(depth.ObservedAt)
	var patch depthPatch
	patch.Metadata.UID, patch.Metadata.ResourceVersion = queue.UID, queue.ResourceVersion
	patch.Status.Messages = v1alpha1.QueueMessages{
		Pending: &depth.Pending, Processing: &depth.Processing, ObservedTime: &observed,
	}
	patch.Status.DeadLetters = deadPatch{Count: depth.Dead, ObservedTime: observed}
	if depth.OldestDeadAt != nil {
		oldest := metav1.NewTime(*depth.OldestDeadAt)
		patch.Status.DeadLetters.OldestTime = &oldest
	}
	patch.Status.CircuitBreaker = breakerStatus(depth.breaker)
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode depth: %w", err)
	}
	target := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: queue.Namespace, Name: queue.Name}}
	err = d.client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, data), status.FieldOwner)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write depth of Queue %s: %w", client.ObjectKeyFromObject(queue), err)
	}
	return nil
}
