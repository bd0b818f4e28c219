package v1alpha1

// ReplayCanary has a run put a few messages back to work first, and no more before all of them have ended.
type ReplayCanary struct {
	// messages is how many messages go first. A run of fewer has no other than these.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Messages int32 `json:"messages,omitempty"`

	// deadlineSeconds is for how long their end is waited for before the condition Succeeded gives the reason
	// 'CanaryOverdue'. The run goes on waiting then: what is not known never lets it grow. Unset means 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	DeadlineSeconds int32 `json:"deadlineSeconds,omitempty"`

	// maxRedeathPercent is how many percent of them may die again; one more aborts the run. Unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxRedeathPercent *int32 `json:"maxRedeathPercent,omitempty"`
}

// ReplayAbort ends a run of whose messages too many die again. The letters that it has not replayed stay dead.
type ReplayAbort struct {
	// redeathPercent of the messages that have ended, if they died again, end the run.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RedeathPercent int32 `json:"redeathPercent,omitempty"`

	// minSample is how many messages must have ended before the run is judged. Unset means 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MinSample int32 `json:"minSample,omitempty"`
}

// ReplayTarget tells which queue the messages go to.
// +kubebuilder:validation:XValidation:rule="(self.type == 'Queue') == has(self.queueRef)",message="`queueRef` must be set when `type` is 'Queue', and must not be set otherwise"
type ReplayTarget struct {
	// type is 'Original' for the queue that the messages died in, or 'Queue' for the one in `queueRef`.
	// +required
	Type ReplayTargetType `json:"type,omitempty"`

	// queueRef is another Queue in the Replay's own namespace, of the same Broker.
	// +optional
	QueueRef QueueReference `json:"queueRef,omitzero"`
}

// ReplayTargetType tells which queue the messages of a run go to.
// +kubebuilder:validation:Enum=Original;Queue
type ReplayTargetType string

const (
	// ReplayTargetOriginal is the queue that the messages died in.
	ReplayTargetOriginal ReplayTargetType = "Original"

	// ReplayTargetQueue is another Queue.
	ReplayTargetQueue ReplayTargetType = "Queue"
)

// ReplayGate holds a run back until a Deployment is rolled out with an image: the one with the fix. Exactly one of
// `imageTag` and `imageDigest` must be set.
// +kubebuilder:validation:XValidation:rule="has(self.imageTag) != has(self.imageDigest)",message="`gate` must have exactly one of `imageTag` and `imageDigest`"
// +kubebuilder:validation:XValidation:rule="!has(self.imageDigest) || self.imageDigest.matches('^sha256:[0-9a-f]{64}$')",message="`imageDigest` must be 'sha256:' and 64 lower-case hexadecimal digits"
type ReplayGate struct {
	// deploymentRef is the Deployment in the Replay's own namespace.
	// +required
	DeploymentRef DeploymentReference `json:"deploymentRef,omitzero"`

	// imageTag is the tag that the image of one of the Deployment's containers must have.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9_][-._a-zA-Z0-9]*$')",message="`imageTag` must be a tag alone, as 'v1.4.2': letters, digits, '_', '-' and '.', without the image's name"
	ImageTag string `json:"imageTag,omitempty"`

	// imageDigest is the digest that the image of one of the Deployment's containers must have.
	// +optional
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	ImageDigest string `json:"imageDigest,omitempty"`
}

// DeploymentReference names a Deployment in the object's own namespace.
type DeploymentReference struct {
	// name is the name of the Deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}
