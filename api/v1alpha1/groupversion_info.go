package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "deadletter.dev"

// Finalizer is held by an object whose deletion must first be answered in the database.
const Finalizer = GroupName + "/finalizer"

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// schemeBuilder is built on apimachinery alone, so that a client of the API does not depend on controller-runtime.
var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the kinds of this package.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(
		GroupVersion,
		&Broker{}, &BrokerList{},
		&Queue{}, &QueueList{},
		&Replay{}, &ReplayList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)

	return nil
}
