package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The settings of a Queue that says nothing. They are part of the API: the CEL rules and the field comments of this
// package repeat them. The queue API applies the same ones to undeclared queues from its own constants, since this
// package imports nothing internal; a test in controllers holds the two together.
const (
	DefaultMaxRetries               int32 = 3
	DefaultBackoffInitialSeconds    int32 = 2
	DefaultBackoffFactorPercent     int32 = 200
	DefaultBackoffMaxSeconds        int32 = 3600
	DefaultBackoffJitterPercent     int32 = 0
	DefaultVisibilityTimeoutSeconds int32 = 30
	DefaultMaxDeliveries            int32 = 10
	DefaultBreakerFailurePercent    int32 = 50
	DefaultBreakerMinSample         int32 = 20
	DefaultBreakerWindowSeconds     int32 = 60
	DefaultBreakerOpenSeconds       int32 = 30
	DefaultBreakerHalfOpenMessages  int32 = 5
	DefaultSucceededSeconds         int32 = 86400
	DefaultDeadSeconds              int32 = 1209600

	DefaultOverflow     = QueueOverflowReject
	DefaultOnDeadExpiry = DeadExpiryDelete
)

// DefaultBrokerName is the Broker that a Queue without `brokerRef` uses when its namespace has one of this name.
const DefaultBrokerName = "default"

// GetConditions returns the conditions in status.
func (q *Queue) GetConditions() []metav1.Condition {
	return q.Status.Conditions
}

// SetConditions replaces the conditions in status.
func (q *Queue) SetConditions(conditions []metav1.Condition) {
	q.Status.Conditions = conditions
}

// EffectiveQueueName is the name the Queue asks for in the queue API, as it is written: it is for the queue API's own
// rules to bring it into Unicode's normal form.
func (q *Queue) EffectiveQueueName() string {
	if q.Spec.QueueName != "" {
		return q.Spec.QueueName
	}

	return q.Name
}

// EffectiveState is `state` with its default.
func (q *Queue) EffectiveState() QueueState {
	return cmp.Or(q.Spec.State, QueueActive)
}

// EffectiveDeletionPolicy is `deletionPolicy` with its default.
func (q *Queue) EffectiveDeletionPolicy() QueueDeletionPolicy {
	return cmp.Or(q.Spec.DeletionPolicy, QueueDeletionRetain)
}

// Effective is the Queue's settings with every default filled in. A limit that is not set is none.
func (q *Queue) Effective() QueueEffective {
	jitter := DefaultBackoffJitterPercent
	if q.Spec.Backoff.JitterPercent != nil {
		jitter = *q.Spec.Backoff.JitterPercent
	}

	return QueueEffective{
		MaxRetries: cmp.Or(q.Spec.MaxRetries, DefaultMaxRetries),
		Backoff: QueueBackoff{
			InitialSeconds: cmp.Or(q.Spec.Backoff.InitialSeconds, DefaultBackoffInitialSeconds),
			FactorPercent:  cmp.Or(q.Spec.Backoff.FactorPercent, DefaultBackoffFactorPercent),
			MaxSeconds:     cmp.Or(q.Spec.Backoff.MaxSeconds, DefaultBackoffMaxSeconds),
			JitterPercent:  &jitter,
		},
		VisibilityTimeoutSeconds: cmp.Or(q.Spec.VisibilityTimeoutSeconds, DefaultVisibilityTimeoutSeconds),
		MaxDeliveries:            cmp.Or(q.Spec.MaxDeliveries, DefaultMaxDeliveries),
		MessageTTLSeconds:        q.Spec.MessageTTLSeconds,
		MaxLength:                q.Spec.MaxLength,
		Overflow:                 cmp.Or(q.Spec.Overflow, DefaultOverflow),
		CircuitBreaker:           effectiveBreaker(q.Spec.CircuitBreaker),
		Retention: QueueRetention{
			SucceededSeconds: cmp.Or(q.Spec.Retention.SucceededSeconds, DefaultSucceededSeconds),
			DeadSeconds:      cmp.Or(q.Spec.Retention.DeadSeconds, DefaultDeadSeconds),
			OnDeadExpiry:     cmp.Or(q.Spec.Retention.OnDeadExpiry, DefaultOnDeadExpiry),
		},
	}
}

// effectiveBreaker is a circuit breaker with every default filled in, if there is one.
func effectiveBreaker(b QueueCircuitBreaker) QueueCircuitBreaker {
	if b == (QueueCircuitBreaker{}) {
		return b
	}

	return QueueCircuitBreaker{
		FailurePercent:   cmp.Or(b.FailurePercent, DefaultBreakerFailurePercent),
		MinSample:        cmp.Or(b.MinSample, DefaultBreakerMinSample),
		WindowSeconds:    cmp.Or(b.WindowSeconds, DefaultBreakerWindowSeconds),
		OpenSeconds:      cmp.Or(b.OpenSeconds, DefaultBreakerOpenSeconds),
		HalfOpenMessages: cmp.Or(b.HalfOpenMessages, DefaultBreakerHalfOpenMessages),
	}
}
