package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// volumes are a pod's volumes on the host: folders with their contents, and links to them at the mount paths. Nothing
// that the host has at a mount path is ever touched. A program that stands in for an image gets no links: it is told
// which folder to take for which path.
type volumes struct {
	dir string
	// claims is the folder of the volumes that outlive the pod.
	claims string
	// folders are the volumes of a stand-in by mount path.
	folders map[string]string
	// made are the links and folders outside dir, to be removed in reverse order.
	made    []string
	mounted bool
}

// mount provides the volumes that a container mounts, at the container's first start.
func (v *volumes) mount(s *sources, container *corev1.Container, standsIn bool) error {
	if v.mounted {
		return nil
	}

	v.folders = map[string]string{}

	for _, mount := range container.VolumeMounts {
		if mount.SubPath != "" || mount.SubPathExpr != "" {
			return fmt.Errorf("mount %s: subPath is not supported", mount.MountPath)
		}

		i := slices.IndexFunc(s.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 {
			return fmt.Errorf("mount %s: there is no volume %q", mount.MountPath, mount.Name)
		}

		volume := &s.pod.Spec.Volumes[i]

		// A folder to write to is what the container wants of an emptyDir, and a host has one at /tmp.
		if volume.EmptyDir != nil && !standsIn && writableDir(mount.MountPath) {
			continue
		}

		folder, err := v.folder(s, volume)
		if err != nil {
			return fmt.Errorf("volume %s: %w", mount.Name, err)
		}

		if err := fill(folder, s, volume); err != nil {
			return fmt.Errorf("volume %s: %w", mount.Name, err)
		}

		if standsIn {
			v.folders[mount.MountPath] = folder

			continue
		}

		if err := v.link(folder, mount.MountPath); err != nil {
			return fmt.Errorf("mount %s: %w", mount.MountPath, err)
		}
	}

	v.mounted = true

	return nil
}

// folder is where a volume is kept.
func (v *volumes) folder(s *sources, volume *corev1.Volume) (string, error) {
	if volume.PersistentVolumeClaim == nil {
		return filepath.Join(v.dir, volume.Name), nil
	}

	if v.claims == "" {
		return "", errors.New("there is no folder for claims")
	}

	return claimFolder(v.claims, s.pod.Namespace, volume.PersistentVolumeClaim.ClaimName), nil
}

// placement is what a stand-in has to know of its pod, because it has no network and no file system of its own.
func (v *volumes) placement(address netip.Addr) []string {
	folders, err := json.Marshal(v.folders)
	if err != nil {
		panic(err) // a map of strings has a JSON form
	}

	return []string{"HOSTPODS_ADDRESS=" + address.String(), "HOSTPODS_VOLUMES=" + string(folders)}
}

func writableDir(path string) bool {
	probe, err := os.CreateTemp(path, ".hostpods-")
	if err != nil {
		return false
	}

	return errors.Join(probe.Close(), os.Remove(probe.Name())) == nil
}

// fill writes what a volume holds.
func fill(folder string, s *sources, volume *corev1.Volume) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	switch {
	case volume.EmptyDir != nil, volume.PersistentVolumeClaim != nil:
		return nil
	case volume.Secret != nil:
		content, err := s.secret(volume.Secret.SecretName)

		return write(folder, content, err, volume.Secret.Items, volume.Secret.Optional)
	case volume.ConfigMap != nil:
		content, err := s.configMap(volume.ConfigMap.Name)

		return write(folder, content, err, volume.ConfigMap.Items, volume.ConfigMap.Optional)
	default:
		return errors.New("only secret, configMap, emptyDir and persistentVolumeClaim volumes are supported")
	}
}

func write(folder string, content map[string]string, err error, items []corev1.KeyToPath, optional *bool) error {
	if err != nil {
		if isTrue(optional) && apierrors.IsNotFound(err) {
			return nil
		}

		return err
	}

	files := map[string]string{}

	for _, item := range items {
		value, found := content[item.Key]
		if !found && !isTrue(optional) {
			return fmt.Errorf("there is no key %q", item.Key)
		}

		if found {
			files[item.Path] = value
		}
	}

	if len(items) == 0 {
		files = content
	}

	for path, value := range files {
		target := filepath.Join(folder, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}

		if err := os.WriteFile(target, []byte(value), 0o600); err != nil {
			return err
		}
	}

	return nil
}

// link makes a mount path lead to a folder.
func (v *volumes) link(folder, path string) error {
	// A host that was killed has left its links.
	if target, err := os.Readlink(path); err == nil && target == folder {
		v.made = append(v.made, path)

		return nil
	}

	var missing []string

	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}

		missing = append(missing, dir)
	}

	for _, dir := range slices.Backward(missing) {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}

		v.made = append(v.made, dir)
	}

	if err := os.Symlink(folder, path); err != nil {
		return fmt.Errorf("the host has something at this path, or it may not be written: %w", err)
	}

	v.made = append(v.made, path)

	return nil
}

// remove undoes mount.
func (v *volumes) remove() error {
	var failures []error
	for _, path := range slices.Backward(v.made) {
		failures = append(failures, os.Remove(path))
	}

	v.made, v.mounted = nil, false

	return errors.Join(append(failures, os.RemoveAll(v.dir))...)
}
