package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimFolder is the folder of a claim's volume. It is known by its name, so that a pod finds there what the pod before
// it has left.
func claimFolder(dir, namespace, name string) string { return filepath.Join(dir, namespace, name) }

// bindClaims provides volumes for the claims of a pod, as a provisioner does.
func (h *host) bindClaims(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil || h.claims == "" {
			continue
		}

		if err := h.bindClaim(ctx, pod.Namespace, source.ClaimName); err != nil {
			return fmt.Errorf("volume claim %s: %w", source.ClaimName, err)
		}
	}

	return nil
}

// bindClaim makes the volume that a claim waits for. The controller manager then binds the two.
func (h *host) bindClaim(ctx context.Context, namespace, name string) error {
	claim, err := h.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName != "" {
		return err
	}

	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}

	volume := "host-" + string(claim.UID)

	body, err := json.Marshal(&corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: claimFolder(h.claims, namespace, name)},
			},
		},
	})
	if err != nil {
		return err
	}

	_, err = h.client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.ApplyPatchType, body, applying())

	return err
}
