package cluster

import (
	"context"
	"strconv"
)

// component is one program of the control plane.
type component struct {
	name  string
	args  []string
	ready func(context.Context) error
}

var componentNames = []string{"etcd", "kube-apiserver", "kube-controller-manager"}

// components lists the programs in the order of their start.
func components(place layout, ports ports) []component {
	probe := newProbe(place, ports)

	return []component{
		{componentNames[0], etcdArgs(place, ports), probe.etcd},
		{componentNames[1], apiServerArgs(place, ports), probe.apiServer},
		{componentNames[2], controllerManagerArgs(place, ports), probe.controllerManager},
	}
}

func etcdArgs(place layout, ports ports) []string {
	return []string{
		"--data-dir=" + place.data(),
		"--name=default",
		"--listen-client-urls=" + loopbackURL(ports.Etcd),
		"--advertise-client-urls=" + loopbackURL(ports.Etcd),
		"--listen-peer-urls=" + loopbackURL(ports.EtcdPeer),
		"--initial-advertise-peer-urls=" + loopbackURL(ports.EtcdPeer),
		"--initial-cluster=default=" + loopbackURL(ports.EtcdPeer),
		"--client-cert-auth",
		"--trusted-ca-file=" + place.certificate(authority),
		"--cert-file=" + place.certificate(serving),
		"--key-file=" + place.key(serving),
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + place.certificate(authority),
		"--peer-cert-file=" + place.certificate(serving),
		"--peer-key-file=" + place.key(serving),
		// The data need not survive a crash of the machine.
		"--unsafe-no-fsync",
		"--logger=zap",
		"--log-level=warn",
	}
}

func apiServerArgs(place layout, ports ports) []string {
	return []string{
		"--etcd-servers=" + loopbackURL(ports.Etcd),
		"--etcd-cafile=" + place.certificate(authority),
		"--etcd-certfile=" + place.certificate(etcdClient),
		"--etcd-keyfile=" + place.key(etcdClient),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(ports.APIServer),
		"--tls-cert-file=" + place.certificate(serving),
		"--tls-private-key-file=" + place.key(serving),
		"--client-ca-file=" + place.certificate(authority),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + place.certificate(serviceAccounts),
		"--service-account-signing-key-file=" + place.key(serviceAccounts),
		"--service-cluster-ip-range=10.96.0.0/16",
		// A loopback address may not appear in the endpoints of the kubernetes Service.
		"--endpoint-reconciler-type=none",
		"--profiling=false",
	}
}

func controllerManagerArgs(place layout, ports ports) []string {
	return []string{
		"--kubeconfig=" + place.controllerKubeconfig(),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(ports.ControllerManager),
		"--tls-cert-file=" + place.certificate(serving),
		"--tls-private-key-file=" + place.key(serving),
		"--client-ca-file=" + place.certificate(authority),
		"--root-ca-file=" + place.certificate(authority),
		"--service-account-private-key-file=" + place.key(serviceAccounts),
		"--use-service-account-credentials=true",
		// Pods that are processes of this machine have loopback addresses, which endpoints may not hold: their controllers
		// would try for ever, with an Event each time. Nothing here reads them.
		"--controllers=*,-endpoints-controller,-endpointslice-controller",
		"--leader-elect=false",
		"--profiling=false",
	}
}
