package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	// run is the run that the counts are about.
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

	// fingerprints counts the selected dead letters by failure group: the most frequent ones, at most 10.
	// +optional
	// +listType=map
	// +listMapKey=fingerprint
	// +kubebuilder:validation:MaxItems=10
	Fingerprints []ReplayFingerprint `json:"fingerprints,omitempty"`

	// consumerVersions counts the selected dead letters by the version of the consumer that reported the last failure: the
	// most frequent ones, at most 10. Letters of which no version was reported are not counted.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MaxItems=10
	ConsumerVersions []ReplayConsumerVersion `json:"consumerVersions,omitempty"`

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
	// right away, and those beyond the limit. What is neither replayed nor skipped nor failed nor beyond the limit is
	// still to do, or was not replayed because the run was cancelled or aborted.
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

	// succeeded is the number of replayed messages that were finished.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Succeeded *int64 `json:"succeeded,omitempty"`

	// redied is the number of replayed messages that died again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Redied *int64 `json:"redied,omitempty"`

	// pending is the number of replayed messages that have not ended yet. After the run has ended the counts are kept up
	// to date until there are none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Pending *int64 `json:"pending,omitempty"`

	// failed is the number of letters that stay dead because the run could not do with them what it was asked to do.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Failed *int64 `json:"failed,omitempty"`

	// removed is the number of replayed messages that were removed, as by a purge, before they had ended.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Removed *int64 `json:"removed,omitempty"`
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

// ReplayFingerprint counts the selected dead letters of one failure group.
type ReplayFingerprint struct {
	// fingerprint is the failure group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`

	// count is the number of dead letters.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Count *int64 `json:"count,omitempty"`
}

// ReplayConsumerVersion counts the selected dead letters that one version of a consumer reported.
type ReplayConsumerVersion struct {
	// version is the version of the consumer, as it was reported.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// count is the number of dead letters.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Count *int64 `json:"count,omitempty"`
}
