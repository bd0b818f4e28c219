package broker

import (
	"fmt"
	"maps"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// Labels and annotations of what the operator makes.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelPartOf    = "app.kubernetes.io/part-of"

	product   = "deadletter"
	managedBy = "deadletter-operator"

	componentAPI      = "api"
	componentPostgres = "postgres"

	// annotationApplied is the hash of what was last applied.
	annotationApplied = v1alpha1.GroupName + "/applied"
	// annotationDatabase changes with the database's credentials, so that a rotation rolls the pods.
	annotationDatabase = v1alpha1.GroupName + "/database"
)

// ManagedBy is the label, and its value, on every object that the operator makes.
func ManagedBy() (key, value string) { return labelManagedBy, managedBy }

// selectorLabels tell one component of one Broker from everything else in its namespace. They can never change.
func selectorLabels(broker *v1alpha1.Broker, component string) map[string]string {
	return map[string]string{
		labelName:      product,
		labelInstance:  broker.Name,
		labelComponent: component,
	}
}

func objectLabels(broker *v1alpha1.Broker, component string) map[string]string {
	labels := selectorLabels(broker, component)
	maps.Copy(labels, map[string]string{labelManagedBy: managedBy, labelPartOf: product})

	return labels
}

func apiName(broker *v1alpha1.Broker) string { return broker.Name + "-api" }

func postgresName(broker *v1alpha1.Broker) string { return broker.Name + "-postgres" }

// claimName is what the StatefulSet's controller calls the volume claim of the one pod.
func claimName(broker *v1alpha1.Broker) string {
	return fmt.Sprintf("%s-%s-0", volumeData, postgresName(broker))
}

func endpoint(broker *v1alpha1.Broker) string {
	return fmt.Sprintf("http://%s.%s.svc", apiName(broker), broker.Namespace)
}
