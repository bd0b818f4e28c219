package v1alpha1

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a Broker that says nothing runs with.
const (
	// DefaultManagedImage is the image of a managed database. Its major version is fixed for as long as this API version
	// lives, because Postgres does not start on the files of another one.
	DefaultManagedImage = "docker.io/library/postgres:17"

	// DefaultManagedStorageSize is the size of a managed database's volume.
	DefaultManagedStorageSize = "10Gi"

	// DefaultSchema is the Postgres schema.
	DefaultSchema = "deadletter"

	// DefaultSecretKey is the key of the connection URI in a Secret.
	DefaultSecretKey = "uri"

	// DefaultAPIReplicas is the number of pods that serve the queue API.
	DefaultAPIReplicas int32 = 1
)

// GetConditions returns the conditions in status.
func (b *Broker) GetConditions() []metav1.Condition {
	return b.Status.Conditions
}

// SetConditions replaces the conditions in status.
func (b *Broker) SetConditions(conditions []metav1.Condition) {
	b.Status.Conditions = conditions
}

// IsManaged tells whether the operator runs the Broker's database.
func (b *Broker) IsManaged() bool {
	return b.Spec.Database.Managed != nil
}

// EffectiveSchema is `schema` with its default.
func (b *Broker) EffectiveSchema() string {
	return cmp.Or(b.Spec.Schema, DefaultSchema)
}

// EffectiveReplicas is `api.replicas` with its default.
func (b *Broker) EffectiveReplicas() int32 {
	if b.Spec.API.Replicas != nil {
		return *b.Spec.API.Replicas
	}

	return DefaultAPIReplicas
}

// EffectiveAPIResources is `api.resources` with its default: a request that lets the scheduler place the pod, and no
// limit, because a throttled queue API slows down every worker.
func (b *Broker) EffectiveAPIResources() corev1.ResourceRequirements {
	return resourcesOr(b.Spec.API.Resources, "100m", "128Mi")
}

// EffectiveUndeclaredQueues is `undeclaredQueues` with its default.
func (b *Broker) EffectiveUndeclaredQueues() UndeclaredQueuesPolicy {
	return cmp.Or(b.Spec.UndeclaredQueues, UndeclaredQueuesAllow)
}

// EffectiveDeletionPolicy is `deletionPolicy` with its default.
func (b *Broker) EffectiveDeletionPolicy() BrokerDeletionPolicy {
	return cmp.Or(b.Spec.DeletionPolicy, BrokerDeletionRetain)
}

// EffectiveFrom is `from` with its default.
func (a *AllowedNamespaces) EffectiveFrom() NamespacesFrom {
	return cmp.Or(a.From, NamespacesFromSame)
}

// EffectiveKey is `key` with its default.
func (r *SecretKeyReference) EffectiveKey() string {
	return cmp.Or(r.Key, DefaultSecretKey)
}

// EffectiveImage is `image` with its default.
func (m *ManagedDatabase) EffectiveImage() string {
	return cmp.Or(m.Image, DefaultManagedImage)
}

// EffectiveSize is `storage.size` with its default.
func (m *ManagedDatabase) EffectiveSize() resource.Quantity {
	if m.Storage.Size != nil {
		return *m.Storage.Size
	}

	return resource.MustParse(DefaultManagedStorageSize)
}

// EffectiveResources is `resources` with its default.
func (m *ManagedDatabase) EffectiveResources() corev1.ResourceRequirements {
	return resourcesOr(m.Resources, "100m", "256Mi")
}

func resourcesOr(set *corev1.ResourceRequirements, cpu, memory string) corev1.ResourceRequirements {
	if set != nil {
		return *set
	}

	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
		},
	}
}
