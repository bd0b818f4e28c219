package queue

import (
	"fmt"
	"time"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/internal/message"
)

// settings are what the database is told of a Queue.
func settings(queue *v1alpha1.Queue) message.Settings {
	effective := queue.Effective()
	return message.Settings{
		MaxRetries: int(effective.MaxRetries),
		Backoff: message.Backoff{
			Initial:       seconds(effective.Backoff.InitialSeconds),
			FactorPercent: int(effective.Backoff.FactorPercent),
			Max:           seconds(effective.Backoff.MaxSeconds),
			JitterPercent: int(*effective.Backoff.JitterPercent),
		},
		VisibilityTimeout: seconds(effective.VisibilityTimeoutSeconds),
		MaxDeliveries:     int(effective.MaxDeliveries),
		MessageTTL:        seconds(effective.MessageTTLSeconds),
		MaxLength:         int64(effective.MaxLength),
		Overflow:          message.Overflow(effective.Overflow),
		Breaker: message.Breaker{
			Window:         seconds(effective.CircuitBreaker.WindowSeconds),
			FailurePercent: int(effective.CircuitBreaker.FailurePercent),
			MinSample:      int(effective.CircuitBreaker.MinSample),
			OpenFor:        seconds(effective.CircuitBreaker.OpenSeconds),
			Probes:         int(effective.CircuitBreaker.HalfOpenMessages),
		},
		State: message.QueueState(queue.EffectiveState()),
		Retention: message.Retention{
			Succeeded:    seconds(effective.Retention.SucceededSeconds),
			Dead:         seconds(effective.Retention.DeadSeconds),
			OnDeadExpiry: message.DeadExpiry(effective.Retention.OnDeadExpiry),
		},
	}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// validate returns the canonical name of the physical queue, or why the spec is not acceptable. The API server holds
// specs to the same rules; this is for objects that were stored under older ones, and for what it cannot express.
func validate(queue *v1alpha1.Queue) (string, *refusal) {
	name, err := message.ParseQueueName(queue.EffectiveQueueName())
	if err != nil {
		return "", invalid("`queueName` cannot be used: " + err.Error())
	}
	const (
		longest    = int32(message.MaxVisibilityTimeout / time.Second)
		longestTTL = int32(message.MaxTTL / time.Second)
	)
	effective := queue.Effective()
	for _, bound := range []struct {
		field                   string
		value, minimum, maximum int32
	}{
		{"maxRetries", effective.MaxRetries, message.MinRetries, message.MaxRetries},
		{"backoff.initialSeconds", effective.Backoff.InitialSeconds, 1, effective.Backoff.MaxSeconds},
		{"backoff.factorPercent", effective.Backoff.FactorPercent, 100, 1000},
		{"backoff.maxSeconds", effective.Backoff.MaxSeconds, 1, 604800},
		{"backoff.jitterPercent", *effective.Backoff.JitterPercent, 0, 100},
		{"visibilityTimeoutSeconds", effective.VisibilityTimeoutSeconds, 1, longest},
		{"maxDeliveries", effective.MaxDeliveries, 1, 1000},
		{"messageTTLSeconds", effective.MessageTTLSeconds, 0, longestTTL}, // 0 is unset.
		{"maxLength", effective.MaxLength, 0, 1000000000},
		{"circuitBreaker.failurePercent", effective.CircuitBreaker.FailurePercent, 0, 100},
		{"circuitBreaker.minSample", effective.CircuitBreaker.MinSample, 0, 100000},
		{"circuitBreaker.windowSeconds", effective.CircuitBreaker.WindowSeconds, 0, 3600},
		{"circuitBreaker.openSeconds", effective.CircuitBreaker.OpenSeconds, 0, 3600},
		{"circuitBreaker.halfOpenMessages", effective.CircuitBreaker.HalfOpenMessages, 0, 1000},
		{"retention.succeededSeconds", effective.Retention.SucceededSeconds, 1, 315360000},
		{"retention.deadSeconds", effective.Retention.DeadSeconds, 1, 315360000},
	} {
		if bound.value < bound.minimum || bound.value > bound.maximum {
			return "", invalid(fmt.Sprintf("`%s` is %d and must be from %d to %d.",
				bound.field, bound.value, bound.minimum, bound.maximum))
		}
	}
	return name, nil
}

func invalid(message string) *refusal {
	return &refusal{reason: v1alpha1.ReasonInvalid, message: message}
}
