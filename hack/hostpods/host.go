package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	nodeName    = "host"
	hostAddress = "127.0.0.1"

	// The controller manager takes a node for lost after 40 seconds without a sign of life.
	leaseNamespace = "kube-node-lease"
	leaseSeconds   = 40
	heartbeat      = leaseSeconds / 4 * time.Second
)

// host runs pods.
type host struct {
	client kubernetes.Interface
	// images are programs that need nothing of their image but themselves, standIns do what an image does.
	images, standIns images
	// dir is for the volumes that end with their pod, claims for those that do not.
	dir, claims string
	// path is where pods find programs first.
	path      string
	out       *lines
	addresses *addresses

	mu   sync.Mutex
	pods map[types.UID]*pod
	// running counts the pods' goroutines.
	running sync.WaitGroup
}

// run registers the node and runs every pod until ctx ends; then it stops their processes and leaves the pods to
// whoever comes next.
func (h *host) run(ctx context.Context) error {
	h.pods = map[types.UID]*pod{}

	if err := h.register(ctx); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}

	factory := informers.NewSharedInformerFactory(h.client, 0)

	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { h.observe(ctx, object) },
		UpdateFunc: func(_, object any) { h.observe(ctx, object) },
		DeleteFunc: h.gone,
	})
	if err != nil {
		return err
	}

	factory.Start(ctx.Done())
	h.out.print(nodeName, "running pods on %s", h.addresses.prefix)

	for pause(ctx, heartbeat) {
		if err := h.beat(ctx); err != nil && ctx.Err() == nil {
			h.out.print(nodeName, "renew the node's lease: %v", err)
		}
	}

	factory.Shutdown()
	h.running.Wait()

	return nil
}

// register makes the node known and ready.
func (h *host) register(ctx context.Context) error {
	now := metav1.Now()
	node := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   nodeName,
			Labels: map[string]string{corev1.LabelHostname: nodeName, corev1.LabelOSStable: "linux"},
		},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "HostpodsReady",
				Message: "hostpods runs pods as processes", LastHeartbeatTime: now, LastTransitionTime: now,
			}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostAddress}},
		},
	}

	body, err := json.Marshal(node)
	if err != nil {
		return err
	}

	// The first one creates the node, the second one writes its status.
	for _, subresources := range [][]string{nil, {"status"}} {
		_, err := h.client.CoreV1().Nodes().
			Patch(ctx, nodeName, types.ApplyPatchType, body, applying(), subresources...)
		if err != nil {
			return err
		}
	}

	// A node that was lost for a while is tainted until its lease is renewed.
	return h.beat(ctx)
}

// beat is the node's sign of life.
func (h *host) beat(ctx context.Context) error {
	body, err := json.Marshal(&coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: leaseNamespace},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(nodeName), LeaseDurationSeconds: new(int32(leaseSeconds)),
			RenewTime: new(metav1.NowMicro()),
		},
	})
	if err != nil {
		return err
	}

	_, err = h.client.CoordinationV1().Leases(leaseNamespace).
		Patch(ctx, nodeName, types.ApplyPatchType, body, applying())

	return err
}

func applying() metav1.PatchOptions {
	return metav1.PatchOptions{FieldManager: "hostpods", Force: new(true)}
}

// observe starts a pod that is new and stops one that is being deleted.
func (h *host) observe(ctx context.Context, object any) {
	seen, ok := object.(*corev1.Pod)
	if !ok || seen.Spec.NodeName != "" && seen.Spec.NodeName != nodeName {
		return
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	known := h.pods[seen.UID]
	finished := seen.Status.Phase == corev1.PodSucceeded || seen.Status.Phase == corev1.PodFailed

	switch {
	case known != nil && seen.DeletionTimestamp != nil:
		known.end()
	case known == nil && (!finished || seen.DeletionTimestamp != nil) && ctx.Err() == nil:
		life, end := context.WithCancel(ctx)
		started := &pod{
			host: h, spec: seen, life: life, hostLife: ctx, end: end, source: seen.Namespace + "/" + seen.Name,
			volumes: volumes{dir: filepath.Join(h.dir, string(seen.UID)), claims: h.claims},
		}
		h.pods[seen.UID] = started

		h.running.Go(started.run)

		if seen.DeletionTimestamp != nil {
			end()
		}
	}
}

// gone ends a pod that was deleted without its grace period.
func (h *host) gone(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}

	seen, ok := object.(*corev1.Pod)
	if !ok {
		return
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	if known := h.pods[seen.UID]; known != nil {
		known.end()
		delete(h.pods, seen.UID)
	}
}

// sources are where a pod's values come from. They are read anew for every start of a container.
func (h *host) sources(ctx context.Context, p *pod) *sources {
	core := h.client.CoreV1()
	namespace := p.spec.Namespace

	return &sources{
		pod: p.spec, address: p.address,
		secret: func(name string) (map[string]string, error) {
			found, err := core.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}

			return texts(found.Data), nil
		},
		configMap: func(name string) (map[string]string, error) {
			found, err := core.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}

			content := texts(found.BinaryData)
			maps.Copy(content, found.Data)

			return content, nil
		},
	}
}

func texts(data map[string][]byte) map[string]string {
	content := make(map[string]string, len(data))
	for key, value := range data {
		content[key] = string(value)
	}

	return content
}

// bind puts a pod on this node, as a scheduler does.
func (h *host) bind(ctx context.Context, p *pod) error {
	if p.spec.Spec.NodeName != "" {
		return nil
	}

	err := h.client.CoreV1().Pods(p.spec.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.spec.Namespace, Name: p.spec.Name, UID: p.spec.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
	if apierrors.IsConflict(err) {
		return nil
	}

	return err
}

// remove ends the deletion of a pod whose process is gone.
func (h *host) remove(ctx context.Context, p *pod) error {
	err := h.client.CoreV1().Pods(p.spec.Namespace).Delete(ctx, p.spec.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.spec.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}

	return err
}
