package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueStatus is what a Queue was last seen to be.
// +kubebuilder:validation:MinProperties=1
type QueueStatus struct {
	// conditions are Accepted, Synced and Ready, and while they apply Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=9007199254740991
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// effective are the settings in force, defaults included.
	// +optional
	Effective QueueEffective `json:"effective,omitzero"`

	// queueName is the name of the queue in the queue API.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	QueueName string `json:"queueName,omitempty"`

	// broker is the Broker that serves the queue.
	// +optional
	Broker QueueBrokerStatus `json:"broker,omitzero"`

	// endpoint is the URL of the queue inside the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Endpoint string `json:"endpoint,omitempty"`

	// messages counts the live messages. It is approximate: a change that matters shows within 10 seconds, any other
	// within a minute.
	// +optional
	Messages QueueMessages `json:"messages,omitzero"`

	// deadLetters counts the dead letters, as approximate as `messages`.
	// +optional
	DeadLetters QueueDeadLetters `json:"deadLetters,omitzero"`

	// circuitBreaker is what the circuit breaker lets through, if there is one.
	// +optional
	CircuitBreaker QueueCircuitBreakerStatus `json:"circuitBreaker,omitzero"`
}

// QueueCircuitBreakerStatus is what a queue's circuit breaker lets through.
type QueueCircuitBreakerStatus struct {
	// state is 'Closed' while everything is handed out, 'Open' while nothing is, and 'HalfOpen' while a few messages are,
	// to see how they end.
	// +required
	State CircuitBreakerState `json:"state,omitempty"`

	// changeTime is since when it is in this state.
	// +required
	ChangeTime *metav1.Time `json:"changeTime,omitempty"`
}

// CircuitBreakerState is what a circuit breaker lets through.
// +kubebuilder:validation:Enum=Closed;Open;HalfOpen
type CircuitBreakerState string

const (
	// CircuitBreakerClosed hands everything out.
	CircuitBreakerClosed CircuitBreakerState = "Closed"

	// CircuitBreakerOpen hands nothing out.
	CircuitBreakerOpen CircuitBreakerState = "Open"

	// CircuitBreakerHalfOpen hands a few messages out, to see how they end.
	CircuitBreakerHalfOpen CircuitBreakerState = "HalfOpen"
)

// QueueEffective is a Queue's settings with every default filled in.
type QueueEffective struct {
	// maxRetries is how many failures make a message a dead letter.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MaxRetries int32 `json:"maxRetries,omitempty"`

	// backoff is how long a message waits after a failure.
	// +required
	Backoff QueueBackoff `json:"backoff,omitzero"`

	// visibilityTimeoutSeconds is how long a worker holds a claimed message.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=43200
	VisibilityTimeoutSeconds int32 `json:"visibilityTimeoutSeconds,omitempty"`

	// maxDeliveries is how many claims a message may see.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxDeliveries int32 `json:"maxDeliveries,omitempty"`

	// messageTTLSeconds is how long a message may wait to be handled that does not say so itself. Unset means for ever.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	MessageTTLSeconds int32 `json:"messageTTLSeconds,omitempty"`

	// maxLength is how many messages may be pending or processing. Unset means any number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	MaxLength int32 `json:"maxLength,omitempty"`

	// overflow tells what becomes of messages that a queue of `maxLength` has no room for.
	// +optional
	Overflow QueueOverflow `json:"overflow,omitempty"`

	// circuitBreaker is when the queue hands out nothing because too much fails. Unset means never.
	// +optional
	CircuitBreaker QueueCircuitBreaker `json:"circuitBreaker,omitzero"`

	// retention is how long finished messages are kept.
	// +required
	Retention QueueRetention `json:"retention,omitzero"`
}

// QueueBrokerStatus names the Broker that serves a Queue.
type QueueBrokerStatus struct {
	// name is the name of the Broker.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the Broker.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// QueueMessages counts a queue's live messages.
type QueueMessages struct {
	// pending is the number of messages that are ready or wait for a retry.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Pending *int64 `json:"pending,omitempty"`

	// processing is the number of messages that workers hold.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Processing *int64 `json:"processing,omitempty"`

	// observedTime is when these numbers were last seen to be new. Status is written only when something changes, so an
	// old time says that the numbers have held since then, not that nobody has looked.
	// +required
	ObservedTime *metav1.Time `json:"observedTime,omitempty"`
}

// QueueDeadLetters counts a queue's dead letters.
type QueueDeadLetters struct {
	// count is the number of dead letters.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Count *int64 `json:"count,omitempty"`

	// oldestTime is when the oldest dead letter died.
	// +optional
	OldestTime *metav1.Time `json:"oldestTime,omitempty"`

	// observedTime is when these numbers were last seen to be new, as in `messages`.
	// +required
	ObservedTime *metav1.Time `json:"observedTime,omitempty"`
}
