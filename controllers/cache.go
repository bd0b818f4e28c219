package controllers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/controllers/broker"
)

// cacheOptions keeps the memory of the operator to what it works on: of everything but its own kinds, only the objects
// that it made, and of Secrets only that they exist and have changed.
func cacheOptions(namespaces []string) cache.Options {
	key, value := broker.ManagedBy()
	own := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{key: value})}

	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:            own,
			&appsv1.StatefulSet{}:           own,
			&corev1.Service{}:               own,
			&corev1.ServiceAccount{}:        own,
			&policyv1.PodDisruptionBudget{}: own,
			&corev1.Secret{}:                {Transform: onlyIdentity},
		},
	}

	if len(namespaces) > 0 {
		options.DefaultNamespaces = make(map[string]cache.Config, len(namespaces))
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}

	return options
}

// onlyIdentity drops what a Secret's metadata may give away: `kubectl apply` keeps the whole Secret in an annotation.
func onlyIdentity(object any) (any, error) {
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		metadata.Annotations, metadata.Labels, metadata.ManagedFields = nil, nil, nil
	}

	return object, nil
}
