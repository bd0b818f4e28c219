package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BrokerSpec is what a Broker is asked to be.
// +kubebuilder:validation:XValidation:rule="self.schema == oldSelf.schema",message="`schema` is immutable",fieldPath=".schema"
type BrokerSpec struct {
	// database is the Postgres database that holds the messages.
	// The choice between `secretRef` and `managed` is immutable.
	// +required
	Database BrokerDatabase `json:"database,omitzero"`

	// schema is the Postgres schema that holds the Broker's tables. The operator creates and migrates it.
	// Immutable.
	// +optional
	// +kubebuilder:default="deadletter"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z_][a-z0-9_]*$')",message="`schema` must consist of lower-case letters, digits and underscores, and must not start with a digit"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('pg_') && !(self in ['public', 'information_schema'])",message="`schema` must not be 'public' or 'information_schema', and must not start with 'pg_'"
	Schema string `json:"schema,omitempty"`

	// api is the queue API's Deployment.
	// +optional
	// +kubebuilder:default={"replicas":1}
	API BrokerAPI `json:"api,omitzero"`

	// undeclaredQueues tells what happens when a message is sent to a queue that no Queue object declares:
	// 'Allow' creates it with the default settings, 'Deny' refuses the message.
	// +optional
	// +kubebuilder:default="Allow"
	UndeclaredQueues UndeclaredQueuesPolicy `json:"undeclaredQueues,omitempty"`

	// allowedNamespaces tells which namespaces may hold Queues that use this Broker.
	// Unset means the Broker's own namespace only.
	// +optional
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitzero"`

	// deletionPolicy tells what becomes of the data when the Broker is deleted: the schema in the database of a
	// `secretRef`, the volume of a `managed` database. 'Retain' keeps it, 'Delete' deletes it with all messages in it.
	// +optional
	// +kubebuilder:default="Retain"
	DeletionPolicy BrokerDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// BrokerDatabase is where the database comes from: exactly one of its fields is set.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.managed)",message="exactly one of `secretRef` and `managed` must be set"
// +kubebuilder:validation:XValidation:rule="has(self.managed) == has(oldSelf.managed)",message="the choice between `secretRef` and `managed` is immutable"
type BrokerDatabase struct {
	// secretRef is a Secret with the connection URI of an existing database. The Secret of a CloudNativePG application
	// user works as it is.
	// +optional
	SecretRef SecretKeyReference `json:"secretRef,omitzero"`

	// managed asks the operator for a Postgres of its own: one instance with one volume, without a standby and without
	// backups. `managed: {}` takes every default.
	// +optional
	Managed *ManagedDatabase `json:"managed,omitempty"`
}

// SecretKeyReference names one value of a Secret in the object's own namespace.
type SecretKeyReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// key is the key of the value in the Secret.
	// +optional
	// +kubebuilder:default="uri"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// ManagedDatabase is a Postgres that the operator runs.
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage)",message="`storage` is immutable",fieldPath=".storage"
type ManagedDatabase struct {
	// image is a Postgres image that keeps to the environment contract of the official one: POSTGRES_USER,
	// POSTGRES_PASSWORD, POSTGRES_DB and PGDATA, with user and group 999.
	// Unset means docker.io/library/postgres:17. Postgres does not start on the files of another major version, so move
	// within one major version only.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// storage is the volume of the database. Immutable.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="`storage` is immutable"
	Storage ManagedStorage `json:"storage,omitzero"`

	// resources are the requests and limits of the database's container.
	// Unset means requests of 100m CPU and 256Mi memory, without limits.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="`claims` must not be set"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// ManagedStorage is the volume of a managed database.
// +kubebuilder:validation:MinProperties=1
type ManagedStorage struct {
	// size is the size of the volume, at least 1Gi. Unset means 10Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Gi')) >= 0",message="`size` must be at least '1Gi'"
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName is the StorageClass of the volume. Unset means the cluster's default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	StorageClassName string `json:"storageClassName,omitempty"`
}

// BrokerAPI is the queue API's Deployment.
// +kubebuilder:validation:MinProperties=1
type BrokerAPI struct {
	// replicas is the number of pods that serve the queue API. 0 stops serving and keeps the messages.
	// It is what the scale subresource reads and writes: leave it out of a manifest that an autoscaler works on.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// image is the image of the queue API. Unset means the operator's own image, so that both are of one release.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// resources are the requests and limits of the queue API's container.
	// Unset means requests of 100m CPU and 128Mi memory, without limits.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="`claims` must not be set"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// podTemplate is what the queue API's pods carry beside what the operator gives them.
	// +optional
	PodTemplate PodTemplate `json:"podTemplate,omitzero"`
}

// PodTemplate is the part of a pod that is the user's to choose: where it runs, where its images come from, and how it
// is labelled. What the operator sets itself wins over a label or an annotation of the same key.
// +kubebuilder:validation:MinProperties=1
type PodTemplate struct {
	// labels are added to the pods.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 63)",message="each key of `labels` must be at most 317 characters long, and each value at most 63"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the pods.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 4096)",message="each key of `annotations` must be at most 317 characters long, and each value at most 4096"
	Annotations map[string]string `json:"annotations,omitempty"`

	// nodeSelector selects the nodes the pods may run on, by their labels.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 63)",message="each key of `nodeSelector` must be at most 317 characters long, and each value at most 63"
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are the taints the pods tolerate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// topologySpreadConstraints tell how the pods spread over zones and nodes.
	// Unset means that they prefer to be on different nodes.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the PriorityClass of the pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// imagePullSecrets are the Secrets, in the Broker's namespace, to pull the image with.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// UndeclaredQueuesPolicy is an answer to a message for a queue that no Queue object declares.
// +kubebuilder:validation:Enum=Allow;Deny
type UndeclaredQueuesPolicy string

const (
	// UndeclaredQueuesAllow creates the queue, with the default settings, at the first message.
	UndeclaredQueuesAllow UndeclaredQueuesPolicy = "Allow"

	// UndeclaredQueuesDeny refuses the message.
	UndeclaredQueuesDeny UndeclaredQueuesPolicy = "Deny"
)

// AllowedNamespaces is a set of namespaces.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="(self.from == 'Selector') == has(self.selector)",message="`selector` must be set when `from` is 'Selector', and must not be set otherwise"
type AllowedNamespaces struct {
	// from tells how the namespaces are chosen: 'Same' means the Broker's own, 'All' every one, 'Selector' the Broker's
	// own and those whose labels match `selector`.
	// +optional
	// +kubebuilder:default="Same"
	From NamespacesFrom `json:"from,omitempty"`

	// selector chooses namespaces by their labels. An empty selector chooses every namespace.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// NamespacesFrom is a way to choose namespaces.
// +kubebuilder:validation:Enum=Same;All;Selector
type NamespacesFrom string

const (
	// NamespacesFromSame chooses the Broker's own namespace.
	NamespacesFromSame NamespacesFrom = "Same"

	// NamespacesFromAll chooses every namespace.
	NamespacesFromAll NamespacesFrom = "All"

	// NamespacesFromSelector chooses the namespaces whose labels match, and the Broker's own namespace.
	NamespacesFromSelector NamespacesFrom = "Selector"
)

// BrokerDeletionPolicy tells what becomes of a Broker's data when the Broker is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type BrokerDeletionPolicy string

const (
	// BrokerDeletionRetain keeps the schema or the volume. A new Broker of the same name takes it up again.
	BrokerDeletionRetain BrokerDeletionPolicy = "Retain"

	// BrokerDeletionDelete deletes the schema or the volume with all messages in it.
	BrokerDeletionDelete BrokerDeletionPolicy = "Delete"
)

// BrokerStatus is what a Broker was last seen to be.
// +kubebuilder:validation:MinProperties=1
type BrokerStatus struct {
	// conditions are Accepted, DatabaseReady, SchemaReady, Available and Ready, and while they apply Reconciling and
	// Stalled.
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

	// endpoint is the URL of the queue API inside the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Endpoint string `json:"endpoint,omitempty"`

	// schemaVersion is the version the schema was migrated to.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	SchemaVersion int32 `json:"schemaVersion,omitempty"`

	// api counts the pods of the queue API.
	// +optional
	API BrokerAPIStatus `json:"api,omitzero"`

	// selector selects the pods of the queue API, in the form the scale subresource hands to an autoscaler.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`

	// database tells where the database's credentials come from.
	// +optional
	Database BrokerDatabaseStatus `json:"database,omitzero"`
}

// BrokerAPIStatus counts the pods of the queue API.
type BrokerAPIStatus struct {
	// replicas is the number of pods.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of pods that serve.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
}

// BrokerDatabaseStatus tells where the database's credentials come from.
type BrokerDatabaseStatus struct {
	// secretName is the name of the Secret in use: the one of `secretRef`, or the one generated for a `managed` database.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// Broker is a queue API with the Postgres schema behind it.
//
// Its name becomes part of the names of its Deployment, Service and StatefulSet, which is why it has to be short.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="`metadata.name` must be at most 40 lower-case letters, digits and hyphens, must start with a letter and must not end with a hyphen"
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.api.replicas,statuspath=.status.api.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=dlb,categories=deadletter
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Schema",type=string,JSONPath=`.spec.schema`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.api.readyReplicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Version",type=integer,priority=1,JSONPath=`.status.schemaVersion`
// +kubebuilder:printcolumn:name="Secret",type=string,priority=1,JSONPath=`.status.database.secretName`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Broker struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the Broker is asked to be.
	// +required
	Spec BrokerSpec `json:"spec,omitzero"`

	// status is what the Broker was last seen to be.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status BrokerStatus `json:"status,omitzero"`
}

// BrokerList is a list of Brokers.
// +kubebuilder:object:root=true
type BrokerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Broker `json:"items"`
}
