// Package v1alpha1 holds the deadletter.dev/v1alpha1 API: Broker, Queue and Replay.
//
// The rules of the API live beside its fields, as schema bounds and CEL, so that they hold without a webhook.
// A controller never writes to spec: whatever it resolves (a default, a generated name) is published in status.
//
// +kubebuilder:object:generate=true
// +groupName=deadletter.dev
package v1alpha1
