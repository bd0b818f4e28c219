package main

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// WriteDocker writes one image as `docker load` reads it.
func WriteDocker(path, tag string, img Image) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}

	return tarball.WriteToFile(path, ref, img.Image)
}

// WriteOCI writes an OCI image layout as a tar archive and returns the digest of the index over all platforms.
func WriteOCI(path, tag string, images []Image) (v1.Hash, error) {
	index := v1.ImageIndex(empty.Index)
	for _, img := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img.Image,
			Descriptor: v1.Descriptor{Platform: &img.Platform},
		})
	}

	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}

	dir, err := os.MkdirTemp("", "deadletter-layout-")
	if err != nil {
		return v1.Hash{}, err
	}

	defer func() { _ = os.RemoveAll(dir) }()

	root, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}

	annotations := map[string]string{"org.opencontainers.image.ref.name": tag}
	if err := root.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return v1.Hash{}, err
	}

	return digest, archive(dir, path)
}

// archive packs a directory: sorted names, no owners, no times.
func archive(dir, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}

	writer := tar.NewWriter(file)

	err = filepath.WalkDir(dir, func(path string, item fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}

		return add(writer, dir, path, item)
	})
	if err != nil {
		_ = file.Close()

		return err
	}

	if err := writer.Close(); err != nil {
		_ = file.Close()

		return err
	}

	return file.Close()
}

func add(writer *tar.Writer, dir, path string, item fs.DirEntry) error {
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}

	header := tar.Header{Name: filepath.ToSlash(relative), ModTime: time.Unix(0, 0)}

	if item.IsDir() {
		header.Typeflag, header.Mode = tar.TypeDir, 0o755
		header.Name += "/"

		return writer.WriteHeader(&header)
	}

	source, err := os.Open(path)
	if err != nil {
		return err
	}

	defer func() { _ = source.Close() }()

	info, err := source.Stat()
	if err != nil {
		return err
	}

	header.Typeflag, header.Mode, header.Size = tar.TypeReg, 0o644, info.Size()
	if err := writer.WriteHeader(&header); err != nil {
		return err
	}

	_, err = io.Copy(writer, source)

	return err
}
