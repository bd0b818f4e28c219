// Command hostpods stands in for a scheduler and a kubelet on a machine that has no container engine: it runs the pods
// of a Kubernetes API as processes of the host.
//
// A pod's one container runs the program that --image maps its image to, with the pod's own command, arguments,
// environment and volumes. An image that needs a file system of its own has a program that stands in for it, by
// --stand-in, which is told where the volumes are. A claim's volume is a folder under --claims that outlives its pods.
//
// Every pod has an address of its own in 127.0.0.0/8; --address reserves one. Its probes are asked, it is restarted
// when it ends, and it is given its grace period when it is deleted. What the API learns of it is true, so Deployments
// become available.
//
// Kubernetes does not let loopback addresses be endpoints, so a Service leads nowhere: clients use a pod's address.
//
// There is no isolation: security contexts, resource limits and network policies have no effect. A pod that asks for
// something that would have an effect and cannot be had is not run; its container waits, and its status says why.
package main
