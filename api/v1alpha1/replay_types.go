package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplaySpec is one run: which dead letters go back to work, and how.
//
// What a run was reviewed for must be what it does. Therefore everything that says what the run selects may change only
// together with `runID`, which asks for a new run; the exception is `mode`, where 'Preview' may become 'Execute': that
// edit is the approval of the preview. `suspend`, `gate`, `limits.messagesPerSecond` and `onDelete` may change at any
// time.
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || self.selector == oldSelf.selector",message="`selector` is immutable unless runID changes",fieldPath=".selector"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || self.mode == oldSelf.mode || oldSelf.mode == 'Preview'",message="`mode` is immutable unless runID changes, once it is 'Execute': the run may have begun",fieldPath=".mode"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || self.?limits.?maxMessages == oldSelf.?limits.?maxMessages",message="`maxMessages` is immutable unless runID changes",fieldPath=".limits"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || self.?limits.?maxReplaysPerMessage == oldSelf.?limits.?maxReplaysPerMessage",message="`maxReplaysPerMessage` is immutable unless runID changes",fieldPath=".limits"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || (has(self.canary) ? has(oldSelf.canary) && self.canary == oldSelf.canary : !has(oldSelf.canary))",message="`canary` is immutable unless runID changes"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || (has(self.abortWhen) ? has(oldSelf.abortWhen) && self.abortWhen == oldSelf.abortWhen : !has(oldSelf.abortWhen))",message="`abortWhen` is immutable unless runID changes"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || (has(self.target) ? has(oldSelf.target) && self.target == oldSelf.target : !has(oldSelf.target))",message="`target` is immutable unless runID changes"
// +kubebuilder:validation:XValidation:rule="!has(self.target) || !has(self.target.queueRef) || self.target.queueRef.name != self.queueRef.name",message="`target` must be another queue than `queueRef`; leave it out to replay to the same one",fieldPath=".target"
type ReplaySpec struct {
	// queueRef is the Queue whose dead letters are replayed, in the Replay's own namespace.
	// Immutable, with a new `runID` too.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="`queueRef` is immutable"
	QueueRef QueueReference `json:"queueRef,omitzero"`

	// runID names the run. A Replay of one namespace, name and runID runs once, however often the object is deleted and
	// created again; to run again, change the runID.
	// +optional
	// +kubebuilder:default="1"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$')",message="`runID` must consist of letters, digits, '-', '_' and '.', and must start and end with a letter or a digit"
	RunID string `json:"runID,omitempty"`

	// mode tells whether the run moves messages: 'Preview' counts what would be selected, 'Execute' puts it back to work.
	// The default moves nothing, so that a run that nobody has looked at is harmless.
	// +optional
	// +kubebuilder:default="Preview"
	Mode ReplayMode `json:"mode,omitempty"`

	// selector chooses the dead letters.
	// +required
	Selector ReplaySelector `json:"selector,omitzero"`

	// limits bound the run.
	// +optional
	Limits ReplayLimits `json:"limits,omitzero"`

	// canary has the run put a few messages back to work first, and go on when they have ended well.
	// +optional
	Canary ReplayCanary `json:"canary,omitzero"`

	// abortWhen ends the run by itself when too many of its messages die again.
	// +optional
	AbortWhen ReplayAbort `json:"abortWhen,omitzero"`

	// target tells which queue the messages go to. Unset means the one that they died in.
	// +optional
	Target ReplayTarget `json:"target,omitzero"`

	// gate holds an Execute back until a Deployment has been rolled out. Once the run has started it has no effect.
	// +optional
	Gate ReplayGate `json:"gate,omitzero"`

	// suspend holds the run back while it is true: no run starts, and one under way pauses after its current batch.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// onDelete tells what becomes of a run under way when the Replay is deleted: 'Cancel' ends it after its current batch
	// and leaves the rest dead, 'Detach' lets it go on to its end in the database.
	// +optional
	// +kubebuilder:default="Cancel"
	OnDelete ReplayDeletionPolicy `json:"onDelete,omitempty"`
}

// QueueReference names a Queue in the object's own namespace.
type QueueReference struct {
	// name is the name of the Queue.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// ReplayMode tells whether a run moves messages.
// +kubebuilder:validation:Enum=Preview;Execute
type ReplayMode string

const (
	// ReplayPreview counts what a run would select, and moves nothing.
	ReplayPreview ReplayMode = "Preview"

	// ReplayExecute puts the selected dead letters back to work.
	ReplayExecute ReplayMode = "Execute"
)

// ReplayLimits bound a run.
// +kubebuilder:validation:MinProperties=1
type ReplayLimits struct {
	// maxMessages is how many dead letters the run may select, oldest death first; `counts.beyondLimit` in status tells
	// how many it leaves out. Unset means 10000.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	MaxMessages int32 `json:"maxMessages,omitempty"`

	// messagesPerSecond is how fast the run may go. Unset means as fast as the database takes it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MessagesPerSecond int32 `json:"messagesPerSecond,omitempty"`

	// maxReplaysPerMessage is how often a message may be replayed in its life; the run skips a letter that has been.
	// Unset means 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplaysPerMessage int32 `json:"maxReplaysPerMessage,omitempty"`
}

// ReplayDeletionPolicy tells what becomes of a run under way when its Replay is deleted.
// +kubebuilder:validation:Enum=Cancel;Detach
type ReplayDeletionPolicy string

const (
	// ReplayDeletionCancel ends the run after its current batch. What it has not replayed stays a dead letter.
	ReplayDeletionCancel ReplayDeletionPolicy = "Cancel"

	// ReplayDeletionDetach lets the run go on to its end in the database.
	ReplayDeletionDetach ReplayDeletionPolicy = "Detach"
)

// Replay is one reviewed run that puts dead letters back to work.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dlr,categories=deadletter
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queueRef.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.counts.matched`
// +kubebuilder:printcolumn:name="Replayed",type=integer,JSONPath=`.status.counts.replayed`
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.counts.succeeded`
// +kubebuilder:printcolumn:name="Redied",type=integer,JSONPath=`.status.counts.redied`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Pending",type=integer,priority=1,JSONPath=`.status.counts.pending`
// +kubebuilder:printcolumn:name="Skipped",type=integer,priority=1,JSONPath=`.status.counts.skipped`
// +kubebuilder:printcolumn:name="Failed",type=integer,priority=1,JSONPath=`.status.counts.failed`
// +kubebuilder:printcolumn:name="Beyond Limit",type=integer,priority=1,JSONPath=`.status.counts.beyondLimit`
// +kubebuilder:printcolumn:name="Mode",type=string,priority=1,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Run",type=string,priority=1,JSONPath=`.status.run.id`
// +kubebuilder:printcolumn:name="Started",type=date,priority=1,JSONPath=`.status.run.startTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Succeeded")].message`
type Replay struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is one run: which dead letters go back to work, and how.
	// +required
	Spec ReplaySpec `json:"spec,omitzero"`

	// status is what the Replay was last seen to be.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status ReplayStatus `json:"status,omitzero"`
}

// ReplayList is a list of Replays.
// +kubebuilder:object:root=true
type ReplayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Replay `json:"items"`
}
