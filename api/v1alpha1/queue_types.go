package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueSpec is what a Queue is asked to be. A setting that is unset takes the product's default, which is published in
// `status.effective` and never written here.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.brokerRef) == has(oldSelf.brokerRef)",message="`brokerRef` is immutable, also when it is unset",fieldPath=".brokerRef"
// +kubebuilder:validation:XValidation:rule="has(self.queueName) == has(oldSelf.queueName)",message="`queueName` is immutable, also when it is unset",fieldPath=".queueName"
// +kubebuilder:validation:XValidation:rule="!has(self.overflow) || has(self.maxLength)",message="`overflow` must not be set without `maxLength`",fieldPath=".overflow"
type QueueSpec struct {
	// brokerRef is the Broker that serves the queue.
	// Unset means the Broker `default` of the Queue's namespace if there is one, and else the operator's default Broker.
	// Immutable: to move a queue, create another Queue.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="`brokerRef` is immutable"
	BrokerRef BrokerReference `json:"brokerRef,omitzero"`

	// queueName is the name of the queue in the queue API, at most 255 bytes of UTF-8.
	// Unset means `metadata.name`. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 255",message="`queueName` must be at most 255 bytes long"
	// +kubebuilder:validation:XValidation:rule="self.matches('^\\\\P{Cc}*$')",message="`queueName` must not contain control characters"
	// +kubebuilder:validation:XValidation:rule="!(self in ['.', '..'])",message="`queueName` must not be '.' or '..'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="`queueName` is immutable"
	QueueName string `json:"queueName,omitempty"`

	// maxRetries is how many failures make a message a dead letter. A message may ask for another number.
	// Unset means 3. A change is for messages that are sent after it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	MaxRetries int32 `json:"maxRetries,omitempty"`

	// backoff is how long a message waits after a failure.
	// +optional
	Backoff QueueBackoff `json:"backoff,omitzero"`

	// visibilityTimeoutSeconds is how long a worker holds a claimed message before the claim counts as failed.
	// Unset means 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=43200
	VisibilityTimeoutSeconds int32 `json:"visibilityTimeoutSeconds,omitempty"`

	// maxDeliveries is how many claims a message may see before it is a dead letter: of the category that its worker
	// reports, or 'POISON' when its lease runs out. Unset means 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxDeliveries int32 `json:"maxDeliveries,omitempty"`

	// messageTTLSeconds is how long a message may wait to be handled, from when it is first ready. One that is not being
	// processed when its time is up is a dead letter of the category 'EXPIRED'. A message may ask for another time.
	// Unset means for ever. A change is for messages that are sent after it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	MessageTTLSeconds int32 `json:"messageTTLSeconds,omitempty"`

	// maxLength is how many messages may be pending or processing. What is sent beyond that meets `overflow`; retries and
	// replays are never refused. Unset means any number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	MaxLength int32 `json:"maxLength,omitempty"`

	// overflow tells what becomes of messages that a queue of `maxLength` has no room for: 'Reject' refuses them, and
	// their producer tries again later; 'DeadLetter' accepts them as dead letters of the category 'OVERFLOW'.
	// Unset means 'Reject'. It needs `maxLength`.
	// +optional
	Overflow QueueOverflow `json:"overflow,omitempty"`

	// circuitBreaker has the queue hand out nothing for a while when too many messages fail, so that the outage of what
	// the workers depend on does not use up the retries of every message. Unset means that there is none.
	// +optional
	CircuitBreaker QueueCircuitBreaker `json:"circuitBreaker,omitzero"`

	// state tells whether messages can be claimed: 'Active' hands them to workers, 'Paused' takes messages and hands out
	// none, while what workers already hold they may finish.
	// +optional
	// +kubebuilder:default="Active"
	State QueueState `json:"state,omitempty"`

	// retention is how long finished messages are kept.
	// +optional
	Retention QueueRetention `json:"retention,omitzero"`

	// deletionPolicy tells what becomes of the messages when the Queue is deleted: 'Retain' keeps them, 'DeleteIfEmpty'
	// holds the Queue until there are neither pending, nor claimed, nor dead ones, 'Delete' deletes them.
	// +optional
	// +kubebuilder:default="Retain"
	DeletionPolicy QueueDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// BrokerReference names a Broker.
type BrokerReference struct {
	// name is the name of the Broker.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the Broker, which must admit the Queue's namespace in `allowedNamespaces`.
	// Unset means the Queue's own namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
}

// QueueBackoff is how long a message waits after its n-th failure:
// initialSeconds * (factorPercent / 100) ^ (n - 1), but at most maxSeconds.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="(has(self.initialSeconds) ? self.initialSeconds : 2) <= (has(self.maxSeconds) ? self.maxSeconds : 3600)",message="`initialSeconds` (2 when unset) must be at most `maxSeconds` (3600 when unset)"
type QueueBackoff struct {
	// initialSeconds is the wait after the first failure. Unset means 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	InitialSeconds int32 `json:"initialSeconds,omitempty"`

	// factorPercent is what each further failure multiplies the wait by, in percent: 100 keeps it constant, 200 doubles
	// it. Unset means 200.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=1000
	FactorPercent int32 `json:"factorPercent,omitempty"`

	// maxSeconds is the longest wait. Unset means 3600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MaxSeconds int32 `json:"maxSeconds,omitempty"`

	// jitterPercent is how much of a wait is left to chance, so that messages that failed together are not retried
	// together. 0, which is also what unset means, makes every wait exact.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	JitterPercent *int32 `json:"jitterPercent,omitempty"`
}

// QueueCircuitBreaker has a queue hand out nothing while too many of its messages fail. Reported failures and leases
// that run out count as failures; messages that are given back count for neither side.
// +kubebuilder:validation:MinProperties=1
type QueueCircuitBreaker struct {
	// failurePercent of the messages that ended within the window must have failed to open the breaker. Unset means 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailurePercent int32 `json:"failurePercent,omitempty"`

	// minSample is how many messages must have ended within the window to open it. Unset means 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MinSample int32 `json:"minSample,omitempty"`

	// windowSeconds is how far back failures count. Unset means 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	WindowSeconds int32 `json:"windowSeconds,omitempty"`

	// openSeconds is how long nothing is handed out. Unset means 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	OpenSeconds int32 `json:"openSeconds,omitempty"`

	// halfOpenMessages is how many messages are handed out after that: one failure opens the breaker again, and when all
	// have succeeded it closes. Unset means 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	HalfOpenMessages int32 `json:"halfOpenMessages,omitempty"`
}

// QueueState tells whether messages can be claimed.
// +kubebuilder:validation:Enum=Active;Paused
type QueueState string

const (
	// QueueActive hands messages to workers.
	QueueActive QueueState = "Active"

	// QueuePaused takes messages and hands out none. What workers already hold, they may finish.
	QueuePaused QueueState = "Paused"
)

// QueueOverflow tells what becomes of messages that a full queue has no room for.
// +kubebuilder:validation:Enum=Reject;DeadLetter
type QueueOverflow string

const (
	// QueueOverflowReject refuses the messages: their producer keeps them and tries again later.
	QueueOverflowReject QueueOverflow = "Reject"

	// QueueOverflowDeadLetter accepts the messages as dead letters, to be replayed when there is room.
	QueueOverflowDeadLetter QueueOverflow = "DeadLetter"
)

// QueueRetention is how long finished messages are kept.
// +kubebuilder:validation:MinProperties=1
type QueueRetention struct {
	// succeededSeconds is how long a message is kept after it succeeded. Unset means 86400, a day.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=315360000
	SucceededSeconds int32 `json:"succeededSeconds,omitempty"`

	// deadSeconds is how long a dead letter is kept after its death. Unset means 1209600, 14 days.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=315360000
	DeadSeconds int32 `json:"deadSeconds,omitempty"`

	// onDeadExpiry tells what becomes of a dead letter when its time is over: 'Delete' deletes it, 'Keep' keeps it until
	// somebody replays it. Unset means 'Delete'.
	// +optional
	OnDeadExpiry DeadExpiryPolicy `json:"onDeadExpiry,omitempty"`
}

// DeadExpiryPolicy tells what becomes of a dead letter when its time is over.
// +kubebuilder:validation:Enum=Delete;Keep
type DeadExpiryPolicy string

const (
	// DeadExpiryDelete deletes the dead letter.
	DeadExpiryDelete DeadExpiryPolicy = "Delete"

	// DeadExpiryKeep keeps the dead letter until somebody replays it.
	DeadExpiryKeep DeadExpiryPolicy = "Keep"
)

// QueueDeletionPolicy tells what becomes of a queue's messages when the Queue is deleted.
// +kubebuilder:validation:Enum=Retain;DeleteIfEmpty;Delete
type QueueDeletionPolicy string

const (
	// QueueDeletionRetain keeps the messages, and lets go of the Queue even when the database is down. A new Queue of the
	// same name takes them up again.
	QueueDeletionRetain QueueDeletionPolicy = "Retain"

	// QueueDeletionDeleteIfEmpty deletes the queue once it holds neither pending, nor claimed, nor dead messages. Until
	// then the Queue stays.
	QueueDeletionDeleteIfEmpty QueueDeletionPolicy = "DeleteIfEmpty"

	// QueueDeletionDelete deletes the queue with all messages in it.
	QueueDeletionDelete QueueDeletionPolicy = "Delete"
)

// Queue is a message queue with its dead letters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dlq,categories=deadletter
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.messages.pending`
// +kubebuilder:printcolumn:name="Processing",type=integer,JSONPath=`.status.messages.processing`
// +kubebuilder:printcolumn:name="Dead",type=integer,JSONPath=`.status.deadLetters.count`
// +kubebuilder:printcolumn:name="Oldest Dead",type=date,JSONPath=`.status.deadLetters.oldestTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Queue",type=string,priority=1,JSONPath=`.status.queueName`
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Breaker",type=string,priority=1,JSONPath=`.status.circuitBreaker.state`
// +kubebuilder:printcolumn:name="Broker",type=string,priority=1,JSONPath=`.status.broker.name`
// +kubebuilder:printcolumn:name="Broker Namespace",type=string,priority=1,JSONPath=`.status.broker.namespace`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Queue struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the Queue is asked to be. A Queue without a spec takes every default.
	// +optional
	// +kubebuilder:default={"state":"Active"}
	Spec QueueSpec `json:"spec,omitzero"`

	// status is what the Queue was last seen to be.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status QueueStatus `json:"status,omitzero"`
}

// QueueList is a list of Queues.
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Queue `json:"items"`
}
