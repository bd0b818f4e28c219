// Package kubetest gives tests a real Kubernetes API: etcd and kube-apiserver with the product's resource definitions.
//
// No controller manager runs behind it. Objects are validated, defaulted and stored, but owned objects are not garbage
// collected, Deployments are not rolled out and deleted namespaces stay; hack/controlplane starts a control plane that
// does all of this.
package kubetest
