package queue

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/store"
)

// breakersOf reads the circuit breakers of a Broker's queues, if one of its Queues has any.
func breakersOf(ctx context.Context, db *store.Store, queues []v1alpha1.Queue) (map[string]store.BreakerInfo, error) {
	for i := range queues {
		if queues[i].Status.Effective.CircuitBreaker != (v1alpha1.QueueCircuitBreaker{}) {
			return db.Breakers(ctx)
		}
	}
	return nil, nil //nolint:nilnil // none is an answer
}

// breakerStatus is what status shows of a circuit breaker; nil, which removes it, for none.
func breakerStatus(info store.BreakerInfo) *v1alpha1.QueueCircuitBreakerStatus {
	if info.State == "" {
		return nil
	}
	changed := metav1.NewTime(info.ChangedAt)
	return &v1alpha1.QueueCircuitBreakerStatus{State: v1alpha1.CircuitBreakerState(info.State), ChangeTime: &changed}
}

// compareBreaker: a breaker that has changed is always worth a write.
func compareBreaker(shown v1alpha1.QueueCircuitBreakerStatus, info store.BreakerInfo) change {
	if shown.State == v1alpha1.CircuitBreakerState(info.State) &&
		(shown.ChangeTime == nil || shown.ChangeTime.Unix() == info.ChangedAt.Unix()) {
		return none
	}
	return large
}
