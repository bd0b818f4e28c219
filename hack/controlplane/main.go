// Command controlplane runs a real Kubernetes API without a container engine: etcd, kube-apiserver and
// kube-controller-manager, built once from their Go modules. There is no kubelet and no scheduler, so objects are
// stored, defaulted, authorised, garbage collected and rolled out, but no pod runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"deadletter.dev/deadletter/hack/controlplane/internal/assets"
	"deadletter.dev/deadletter/hack/controlplane/internal/cluster"
	"deadletter.dev/deadletter/hack/controlplane/internal/progress"
)

const usage = `usage:
  controlplane assets           build the binaries once and print the folder that holds them
  controlplane up --dir DIR     start a control plane with its state in DIR; prints the path of its kubeconfig
  controlplane down --dir DIR   stop it and remove its state

KUBEBUILDER_ASSETS names a folder with binaries to use instead of building them.
`

var errUsage = errors.New("wrong arguments")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])

	stop()

	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}

	out := progress.New(os.Stderr)

	if args[0] == "assets" && len(args) == 1 {
		dir, err := assets.Ensure(ctx, out)
		if err != nil {
			return err
		}

		fmt.Println(dir)

		return nil
	}

	dir, err := dirFlag(args)
	if err != nil {
		return err
	}

	switch args[0] {
	case "up":
		return up(ctx, dir, out)
	case "down":
		return cluster.Down(dir, out)
	default:
		return errUsage
	}
}

func dirFlag(args []string) (string, error) {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.Usage = func() {}
	dir := flags.String("dir", "", "folder of the control plane's state")

	if err := flags.Parse(args[1:]); err != nil || *dir == "" || flags.NArg() != 0 {
		return "", errUsage
	}

	return *dir, nil
}

func up(ctx context.Context, dir string, out *progress.Printer) error {
	binaries, err := assets.Ensure(ctx, out)
	if err != nil {
		return err
	}

	kubeconfig, err := cluster.Up(ctx, binaries, dir, out)
	if err != nil {
		return err
	}

	fmt.Println(kubeconfig)

	return nil
}
