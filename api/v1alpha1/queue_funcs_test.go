package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"deadletter.dev/deadletter/api/v1alpha1"
)

func TestEffectiveFillsInDefaults(t *testing.T) {
	t.Parallel()

	want := v1alpha1.QueueEffective{
		MaxRetries: 3,
		Backoff: v1alpha1.QueueBackoff{
			InitialSeconds: 2, FactorPercent: 200, MaxSeconds: 3600, JitterPercent: ptr.To[int32](0),
		},
		VisibilityTimeoutSeconds: 30,
		MaxDeliveries:            10,
		Overflow:                 v1alpha1.QueueOverflowReject,
		Retention: v1alpha1.QueueRetention{
			SucceededSeconds: 86400, DeadSeconds: 1209600, OnDeadExpiry: v1alpha1.DeadExpiryDelete,
		},
	}

	if d := cmp.Diff(want, (&v1alpha1.Queue{}).Effective()); d != "" {
		t.Errorf("effective settings (-want +got):\n%s", d)
	}
}

func TestEffectiveKeepsWhatIsSet(t *testing.T) {
	t.Parallel()

	want := v1alpha1.QueueEffective{
		MaxRetries: 7,
		Backoff: v1alpha1.QueueBackoff{
			InitialSeconds: 5, FactorPercent: 150, MaxSeconds: 60, JitterPercent: ptr.To[int32](25),
		},
		VisibilityTimeoutSeconds: 90,
		MaxDeliveries:            4,
		MessageTTLSeconds:        3600,
		MaxLength:                1000,
		Overflow:                 v1alpha1.QueueOverflowDeadLetter,
		CircuitBreaker: v1alpha1.QueueCircuitBreaker{
			FailurePercent: 40, MinSample: 30, WindowSeconds: 20, OpenSeconds: 10, HalfOpenMessages: 9,
		},
		Retention: v1alpha1.QueueRetention{
			SucceededSeconds: 1, DeadSeconds: 2, OnDeadExpiry: v1alpha1.DeadExpiryKeep,
		},
	}

	queue := v1alpha1.Queue{Spec: v1alpha1.QueueSpec{
		MaxRetries:               want.MaxRetries,
		Backoff:                  want.Backoff,
		VisibilityTimeoutSeconds: want.VisibilityTimeoutSeconds,
		MaxDeliveries:            want.MaxDeliveries,
		MessageTTLSeconds:        want.MessageTTLSeconds,
		MaxLength:                want.MaxLength,
		Overflow:                 want.Overflow,
		CircuitBreaker:           want.CircuitBreaker,
		Retention:                want.Retention,
	}}

	if d := cmp.Diff(want, queue.Effective()); d != "" {
		t.Errorf("effective settings (-want +got):\n%s", d)
	}
}

func TestEffectiveFillsTheBreakerInThatThereIs(t *testing.T) {
	t.Parallel()

	queue := v1alpha1.Queue{Spec: v1alpha1.QueueSpec{CircuitBreaker: v1alpha1.QueueCircuitBreaker{MinSample: 7}}}
	want := v1alpha1.QueueCircuitBreaker{
		FailurePercent: 50, MinSample: 7, WindowSeconds: 60, OpenSeconds: 30, HalfOpenMessages: 5,
	}

	if d := cmp.Diff(want, queue.Effective().CircuitBreaker); d != "" {
		t.Errorf("the breaker (-want +got):\n%s", d)
	}
}
