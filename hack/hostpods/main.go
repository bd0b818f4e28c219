package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "hostpods:", err)
		os.Exit(1)
	}
}

// images maps the name of an image, without its tag, to the program that is its entrypoint.
type images map[string]string

func (i images) String() string { return "" }

// Set reads one NAME=PROGRAM.
func (i images) Set(text string) error {
	name, program, found := strings.Cut(text, "=")
	if !found || name == "" || program == "" {
		return errors.New("must be NAME=PROGRAM")
	}

	path, err := filepath.Abs(program)
	i[name] = path

	return err
}

// program returns what to run for an image.
func (i images) program(image string) (string, error) {
	name, _, _ := strings.Cut(image, "@")
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name = name[:colon]
	}

	program, found := i[name]
	if !found {
		return "", fmt.Errorf("no program of this host stands for the image %q", image)
	}

	return program, nil
}

func run(ctx context.Context, args []string) error {
	programs, standIns, fixed := images{}, images{}, reservations{}
	flags := flag.NewFlagSet("hostpods", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", os.Getenv("KUBECONFIG"), "`file` with the access to the Kubernetes API")
	dir := flags.String("dir", "", "`folder` for the pods' volumes")
	claims := flags.String("claims", "", "`folder` for the volumes of claims, which outlive their pods")
	path := flags.String("path", "", "`folders` that the pods find programs in, before the usual ones")
	network := flags.String("network", "127.77.0.0/24", "`range` of loopback addresses to give to pods")
	flags.Var(programs, "image", "`NAME=PROGRAM` to run for pods of an image; may be repeated")
	flags.Var(standIns, "stand-in", "`NAME=PROGRAM` that does on this host what an image does in its own file system; "+
		"may be repeated")
	flags.Var(fixed, "address", "`NAMESPACE/POD=ADDRESS` of a pod that is to have it every time; may be repeated")

	if err := flags.Parse(args); err != nil {
		return err
	}

	prefix, err := netip.ParsePrefix(*network)
	if err != nil || !prefix.Addr().IsLoopback() {
		return fmt.Errorf("--network %q is no range of loopback addresses", *network)
	}

	if *dir == "" {
		return errors.New("--dir is required")
	}

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}

	config.QPS, config.Burst = 50, 100

	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	h := &host{
		client: client, images: programs, standIns: standIns, dir: *dir, claims: *claims, path: *path,
		out: &lines{out: os.Stdout}, addresses: &addresses{prefix: prefix.Masked(), reserved: fixed},
	}

	return h.run(ctx)
}
