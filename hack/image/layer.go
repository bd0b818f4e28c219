package main

import (
	"archive/tar"
	"bytes"
	"embed"
	"io"
	"io/fs"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// rootfs holds the files beside the binary: names for the user the image runs as. The Dockerfile copies the same
// folder.
//
//go:embed rootfs
var rootfs embed.FS

// layers are the static files, which rarely change, and the binary, which does.
func (b Build) layers(binary []byte) ([]v1.Layer, error) {
	static, err := b.staticFiles()
	if err != nil {
		return nil, err
	}

	var layers []v1.Layer

	for _, entries := range [][]entry{static, {{name: "deadletter", mode: 0o555, content: binary}}} {
		layer, err := layerOf(entries, b.Created)
		if err != nil {
			return nil, err
		}

		layers = append(layers, layer)
	}

	return layers, nil
}

// entry is one file or, with a name that ends in a slash, one directory.
type entry struct {
	name    string
	mode    int64
	content []byte
}

func (b Build) staticFiles() ([]entry, error) {
	var entries []entry

	err := fs.WalkDir(rootfs, "rootfs", func(path string, item fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, "rootfs"), "/")
		if err != nil || name == "" {
			return err
		}

		if item.IsDir() {
			entries = append(entries, entry{name: name + "/", mode: 0o755})

			return nil
		}

		content, err := rootfs.ReadFile(path)
		entries = append(entries, entry{name: name, mode: 0o644, content: content})

		return err
	})

	return entries, err
}

// layerOf packs entries, all owned by root, so that the user the image runs as can change none of them.
func layerOf(entries []entry, modified time.Time) (v1.Layer, error) {
	var archive bytes.Buffer

	writer := tar.NewWriter(&archive)

	for _, item := range entries {
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(item.name, "/") {
			kind = tar.TypeDir
		}

		header := tar.Header{
			Typeflag: kind,
			Name:     item.name,
			Mode:     item.mode,
			Size:     int64(len(item.content)),
			ModTime:  modified,
			Format:   tar.FormatPAX,
		}
		if err := writer.WriteHeader(&header); err != nil {
			return nil, err
		}

		if _, err := writer.Write(item.content); err != nil {
			return nil, err
		}
	}

	if err := writer.Close(); err != nil {
		return nil, err
	}

	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }

	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}
