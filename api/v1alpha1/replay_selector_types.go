package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplaySelector chooses dead letters. A dead letter is selected when it meets every criterion that is set; in a list,
// one entry is enough, but of `headers` it must have all. Only letters that were dead when the run started are ever
// selected.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="self.scope == 'All' || has(self.categories) || has(self.fingerprints) || has(self.errorContains) || has(self.headers) || has(self.consumerVersions) || has(self.diedAfter) || has(self.diedBefore) || has(self.messageIDs)",message="`selector` must have at least one criterion, or `scope` 'All' to select every dead letter of the queue"
// +kubebuilder:validation:XValidation:rule="self.scope != 'All' || !(has(self.categories) || has(self.fingerprints) || has(self.errorContains) || has(self.headers) || has(self.consumerVersions) || has(self.diedAfter) || has(self.diedBefore) || has(self.messageIDs))",message="`selector` must not have criteria when `scope` is 'All'"
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

	// headers selects the messages that were sent with every one of these headers, whose names and values are compared
	// exactly.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=value
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []ReplayHeader `json:"headers,omitempty"`

	// consumerVersions selects the letters whose last failure was reported by one of these versions of the consumer.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	ConsumerVersions []string `json:"consumerVersions,omitempty"`

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

// ReplayHeader is a header that a message must have been sent with.
type ReplayHeader struct {
	// name is the name of the header. Upper and lower case differ.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// value is the whole value of the header.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}
