package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Build says what goes into an image.
type Build struct {
	// Package is the main package, relative to the source directory.
	Package string
	// Version is linked into the binary and written into the labels.
	Version string
	// Created is the time of the image and of every file in it.
	Created time.Time
}

// Image is an image with the platform it is for.
type Image struct {
	v1.Image

	Platform v1.Platform
}

// Image compiles the binary from the module in source and packs it.
func (b Build) Image(ctx context.Context, source string, platform v1.Platform) (v1.Image, error) {
	binary, err := b.compile(ctx, source, platform)
	if err != nil {
		return nil, err
	}

	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)

	layers, err := b.layers(binary)
	if err != nil {
		return nil, err
	}

	img, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, err
	}

	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}

	file = file.DeepCopy()
	file.OS = platform.OS
	file.Architecture = platform.Architecture
	file.Variant = platform.Variant
	file.Created = v1.Time{Time: b.Created}
	file.Config = b.config()

	return mutate.ConfigFile(img, file)
}

// config is the runtime part of the configuration. It says what the Dockerfile's last stage says.
func (b Build) config() v1.Config {
	return v1.Config{
		Entrypoint: []string{"/deadletter"},
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "deadletter",
			"org.opencontainers.image.description": "Message queues as Kubernetes resources, " +
				"with a dead letter queue worth the name",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  b.Version,
		},
		User:       "65532:65532",
		WorkingDir: "/",
	}
}

// compile builds the binary and makes sure it needs nothing the image does not hold.
func (b Build) compile(ctx context.Context, source string, platform v1.Platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "deadletter-image-")
	if err != nil {
		return nil, err
	}

	defer func() { _ = os.RemoveAll(dir) }()

	out := filepath.Join(dir, "deadletter")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version="+b.Version, "-o", out, b.Package)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture,
		// Whatever the caller's shell says about code generation, the bytes stay the same.
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off")

	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, bytes.TrimSpace(output))
	}

	binary, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}

	return binary, requireStatic(binary)
}

// requireStatic refuses a binary that asks for a dynamic loader: an image without one could not start it.
func requireStatic(binary []byte) error {
	file, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return err
	}

	for _, prog := range file.Progs {
		if prog.Type == elf.PT_INTERP || prog.Type == elf.PT_DYNAMIC {
			return errors.New("the binary is linked dynamically")
		}
	}

	return nil
}
