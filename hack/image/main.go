// Command image writes the product's container image as archives, without a container engine.
//
// It compiles the binary for each platform and packs it with the configuration the Dockerfile describes. The same
// sources and flags give the same digest on every machine: nothing of the clock, the user or the work tree gets in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"), os.Stdout)

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// options is what the command line says.
type options struct {
	source    string
	out       string
	tag       string
	platforms []v1.Platform
	build     Build
}

func run(ctx context.Context, args []string, epoch string, progress io.Writer) error {
	opts, err := parse(args, epoch)
	if err != nil {
		return err
	}

	images := make([]Image, 0, len(opts.platforms))

	for _, platform := range opts.platforms {
		started := time.Now()

		img, err := opts.build.Image(ctx, opts.source, platform)
		if err != nil {
			return fmt.Errorf("%s: %w", platform.String(), err)
		}

		digest, err := img.Digest()
		if err != nil {
			return err
		}

		fmt.Fprintf(progress, "%s  %s  %.1fs\n", digest, platform.String(), time.Since(started).Seconds())

		images = append(images, Image{Image: img, Platform: platform})
	}

	return writeArchives(opts, images, progress)
}

func writeArchives(opts options, images []Image, progress io.Writer) error {
	if err := os.MkdirAll(opts.out, 0o755); err != nil {
		return err
	}

	docker := filepath.Join(opts.out, "deadletter.tar")
	if err := WriteDocker(docker, opts.tag, images[0]); err != nil {
		return fmt.Errorf("write %s: %w", docker, err)
	}

	fmt.Fprintf(progress, "wrote %s: docker archive of %s for %s\n", docker, opts.tag, images[0].Platform.String())

	oci := filepath.Join(opts.out, "deadletter-oci.tar")

	digest, err := WriteOCI(oci, opts.tag, images)
	if err != nil {
		return fmt.Errorf("write %s: %w", oci, err)
	}

	fmt.Fprintf(progress, "wrote %s: OCI layout, index %s\n", oci, digest)

	return nil
}

func parse(args []string, epoch string) (options, error) {
	var (
		opts      options
		platforms string
	)

	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&opts.source, "source", "../..", "directory of the Go module to build")
	flags.StringVar(&opts.out, "out", "../../build", "directory to write the archives to")
	flags.StringVar(&opts.build.Package, "package", "./cmd/deadletter", "main package to build")
	flags.StringVar(&opts.build.Version, "version", "dev", "version in the binary, the label and the tag")
	flags.StringVar(&platforms, "platforms", "linux/amd64",
		"platforms, separated by commas; the docker archive holds the first")

	if err := flags.Parse(args); err != nil {
		return options{}, err
	}

	for name := range strings.SplitSeq(platforms, ",") {
		platform, err := v1.ParsePlatform(strings.TrimSpace(name))
		if err != nil {
			return options{}, err
		}

		if platform.OS != "linux" || platform.Architecture == "" {
			return options{}, fmt.Errorf("platform %q: want linux/ARCHITECTURE", name)
		}

		opts.platforms = append(opts.platforms, *platform)
	}

	opts.tag = "deadletter:" + tagOf(opts.build.Version)

	created, err := createdAt(epoch)
	opts.build.Created = created

	return opts, err
}

// createdAt is the image's timestamp: SOURCE_DATE_EPOCH, or the start of time when there is none.
func createdAt(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}

	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("SOURCE_DATE_EPOCH must be a number of seconds")
	}

	return time.Unix(seconds, 0).UTC(), nil
}

// tagOf makes a version fit for a tag: semantic versions may hold a '+', tags may not.
func tagOf(version string) string {
	return strings.ReplaceAll(version, "+", "-")
}
