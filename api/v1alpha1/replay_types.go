package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplaySpec is one run: which dead letters go back to work, and how.
//
// What a run was reviewed for must be what it does. Therefore everything that says what the run selects may change only
// together with `runID`, which asks for a new run; the exception is `mode`, where 'Preview' may become 'Execute': that
// edit is the approval of the preview. `suspend`, `limits.messagesPerSecond` and `onDelete` may change at any time.
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || self.selector == oldSelf.selector",message="`selector` is immutable unless runID changes",fieldPath=".selector"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || self.mode == oldSelf.mode || oldSelf.mode == 'Preview'",message="`mode` is immutable unless runID changes, once it is 'Execute': the run may have begun",fieldPath=".mode"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || self.?limits.?maxMessages == oldSelf.?limits.?maxMessages",message="`maxMessages` is immutable unless runID changes",fieldPath=".limits"
// +kubebuilder:validation:XValidation:rule="self.runID != oldSelf.runID || self.?limits.?maxReplaysPerMessage == oldSelf.?limits.?maxReplaysPerMessage",message="`maxReplaysPerMessage` is immutable unless runID changes",fieldPath=".limits"
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

// ReplaySelector chooses dead letters. A dead letter is selected when it meets every criterion that is set; in a list,
// one entry is enough. Only letters that were dead when the run started are ever selected.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="self.scope == 'All' || has(self.categories) || has(self.fingerprints) || has(self.errorContains) || has(self.diedAfter) || has(self.diedBefore) || has(self.messageIDs)",message="`selector` must have at least one criterion, or `scope` 'All' to select every dead letter of the queue"
// +kubebuilder:validation:XValidation:rule="self.scope != 'All' || !(has(self.categories) || has(self.fingerprints) || has(self.errorContains) || has(self.diedAfter) || has(self.diedBefore) || has(self.messageIDs))",message="`selector` must not have criteria when `scope` is 'All'"
// +kubebuilder:validation:XValidation:rule="!has(self.diedAfter) || !has(self.diedBefore) || self.diedAfter < self.diedBefore",message="`diedAfter` must be before `diedBefore`"
type ReplaySelector struct {
	// scope tells whether criteria choose the dead letters, which is 'Matching', or every one of the queue is meant, which
	// is 'All' and excludes criteria. Either way `limits` bound the run.
	// +optional
	// +kubebuilder:default="Matching"
	Scope ReplayScope `json:"scope,omitempty"`

	// categories selects by failure category: 'VALIDATION', 'TIMEOUT', 'AUTH', 'EXTERNAL', 'POISON', 'EXPIRED',
	// 'OVERFLOW', 'UNKNOWN', or one of the workers' own. Upper and lower case differ.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.trim() in ['VALIDATION', 'TIMEOUT', 'AUTH', 'EXTERNAL', 'POISON', 'EXPIRED', 'OVERFLOW', 'UNKNOWN'] || !(c.trim().upperAscii() in ['VALIDATION', 'TIMEOUT', 'AUTH', 'EXTERNAL', 'POISON', 'EXPIRED', 'OVERFLOW', 'UNKNOWN']))",message="`categories` must have the built-in ones in capitals, as 'EXTERNAL': upper and lower case differ"
	Categories []string `json:"categories,omitempty"`

	// fingerprints selects by failure group: 16 lower-case hexadecimal digits, as the queue API shows them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=16
	// +kubebuilder:validation:items:MaxLength=16
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{16}$`
	Fingerprints []string `json:"fingerprints,omitempty"`

	// errorContains selects the letters whose last error contains this text, exactly as it is written.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ErrorContains string `json:"errorContains,omitempty"`

	// diedAfter selects the letters that died at this time or later, by the database's clock.
	// +optional
	DiedAfter *metav1.Time `json:"diedAfter,omitempty"`

	// diedBefore selects the letters that died before this time, by the database's clock.
	// +optional
	DiedBefore *metav1.Time `json:"diedBefore,omitempty"`

	// messageIDs selects single messages.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=9007199254740991
	MessageIDs []int64 `json:"messageIDs,omitempty"`
}

// ReplayScope tells what a selector works on.
// +kubebuilder:validation:Enum=Matching;All
type ReplayScope string

const (
	// ReplayScopeMatching selects the dead letters that meet the criteria.
	ReplayScopeMatching ReplayScope = "Matching"

	// ReplayScopeAll selects every dead letter of the queue, up to the limits of the run.
	ReplayScopeAll ReplayScope = "All"
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

// ReplayStatus is what a Replay was last seen to be.
// +kubebuilder:validation:MinProperties=1
type ReplayStatus struct {
	// conditions are Accepted, Suspended, Succeeded and Ready, and while they apply Reconciling and Stalled.
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

	// run is the run that `counts` and `categories` are about.
	// +optional
	Run ReplayRun `json:"run,omitzero"`

	// counts are what became of the selected dead letters.
	// +optional
	Counts ReplayCounts `json:"counts,omitzero"`

	// categories counts the selected dead letters by failure category, the most frequent first; what does not fit is
	// summed up as 'OTHER'.
	// +optional
	// +listType=map
	// +listMapKey=category
	// +kubebuilder:validation:MaxItems=32
	Categories []ReplayCategory `json:"categories,omitempty"`

	// oldestDeathTime is when the oldest of the selected dead letters died.
	// +optional
	OldestDeathTime *metav1.Time `json:"oldestDeathTime,omitempty"`

	// newestDeathTime is when the newest of the selected dead letters died.
	// +optional
	NewestDeathTime *metav1.Time `json:"newestDeathTime,omitempty"`
}

// ReplayRun is a run as the database records it.
type ReplayRun struct {
	// id is the `runID` of the run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id,omitempty"`

	// mode is the `mode` of the run.
	// +required
	Mode ReplayMode `json:"mode,omitempty"`

	// hash is the hash of what the run was asked to do.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Hash string `json:"hash,omitempty"`

	// selectedBefore is the time the selection was frozen at: a letter that died later is not part of the run.
	// +optional
	SelectedBefore *metav1.Time `json:"selectedBefore,omitempty"`

	// startTime is when the run started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the run ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// ReplayCounts are what became of the dead letters of a run. Of a Preview, `replayed` is always 0.
type ReplayCounts struct {
	// matched is the number of dead letters that met the selector when the run started: the selected ones, those skipped
	// right away, and those beyond the limit. What is neither replayed nor skipped nor beyond the limit is still to do, or
	// was not replayed because the run was cancelled.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Matched *int64 `json:"matched,omitempty"`

	// replayed is the number of messages that were put back to work.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Replayed *int64 `json:"replayed,omitempty"`

	// skipped is the number of letters that were left alone: replayed too often, or no longer dead when their turn came.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Skipped *int64 `json:"skipped,omitempty"`

	// beyondLimit is the number of letters that met the selector and stay dead because the run may select at most
	// `limits.maxMessages`. It is absent from the status of runs that an older release showed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	BeyondLimit *int64 `json:"beyondLimit,omitempty"`
}

// ReplayCategory counts the selected dead letters of one failure category.
type ReplayCategory struct {
	// category is the failure category, or 'OTHER'.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Category string `json:"category,omitempty"`

	// count is the number of dead letters.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Count *int64 `json:"count,omitempty"`
}

// Replay is one reviewed run that puts dead letters back to work.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dlr,categories=deadletter
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queueRef.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].reason`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.counts.matched`
// +kubebuilder:printcolumn:name="Replayed",type=integer,JSONPath=`.status.counts.replayed`
// +kubebuilder:printcolumn:name="Skipped",type=integer,JSONPath=`.status.counts.skipped`
// +kubebuilder:printcolumn:name="Beyond Limit",type=integer,JSONPath=`.status.counts.beyondLimit`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
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
