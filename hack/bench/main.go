// Command bench measures the product against other queues on this machine: the same work, payload and durability for
// each, in one run. Goals are ratios, since seconds are the machine's.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/scenario"
	"deadletter.dev/deadletter/hack/bench/internal/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 3 && args[0] == server.NATSCommand {
		return server.RunNATS(ctx, args[1], args[2])
	}
	opts, err := parse(args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(opts.Out, 0o755); err != nil {
		return err
	}
	if opts.Binary == "" {
		fmt.Fprintln(out, "building the product from", opts.root)
		if opts.Binary, err = server.Build(ctx, opts.root, opts.Out); err != nil {
			return err
		}
	}
	return measureAll(ctx, opts, out)
}

func measureAll(ctx context.Context, opts options, out io.Writer) (err error) {
	bench, err := scenario.New(ctx, opts.Options, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bench.Close()) }()
	var results []*report.Result
	for _, s := range opts.scenarios {
		result, err := bench.Run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.ID, err)
		}
		report.Table(out, result)
		if err := report.Write(opts.Out, result); err != nil {
			return err
		}
		if err := report.Draw(opts.Out, result); err != nil {
			return err
		}
		results = append(results, result)
	}
	return writeMarkdown(opts.Out, results)
}

func writeMarkdown(dir string, results []*report.Result) error {
	var text strings.Builder
	report.Markdown(&text, results)
	return os.WriteFile(filepath.Join(dir, "results.md"), []byte(text.String()), 0o644)
}

// options are what the command line says.
type options struct {
	scenario.Options

	root      string
	scenarios []scenario.Scenario
}

func parse(args []string) (options, error) {
	opts := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("only", "", "scenarios to run, such as P1,P4; all without it")
	peers := flags.String("peers", "", "peers to run, by name and separated by commas; all without it")
	quick := flags.Bool("quick", false, "a few seconds each and a small backlog: shows that it works, not how fast it is")
	long := flags.Bool("long", false, "hold the horizon for 10 minutes in P4, and measure everything for a minute")
	scale := flags.Float64("scale", 0.1, "size of the backlog: 1 is 10 million pending and 1 million dead")
	flags.StringVar(&opts.root, "root", "../..", "the product's source tree")
	flags.StringVar(&opts.Binary, "binary", "", "the product's binary; built from the tree without it")
	flags.StringVar(&opts.Out, "out", "../../build/bench", "folder for results and charts")
	flags.StringVar(&opts.Cache, "cache", "../../build/bench/cache", "folder for npm packages")
	flags.DurationVar(&opts.Measure, "measure", 8*time.Second, "how long each figure is measured")
	flags.IntVar(&opts.BatchClients, "batch-clients", 16, "clients that send and claim batches")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.Warm, opts.Pin = 2*time.Second, time.Minute
	opts.IdleQueues, opts.LongPolls = 10_000, 500
	switch {
	case *quick:
		opts.Measure, opts.Warm, opts.Pin, *scale = 2*time.Second, 500*time.Millisecond, 4*time.Second, 0.002
		opts.IdleQueues, opts.LongPolls = 200, 50
	case *long:
		opts.Measure, opts.Pin = time.Minute, 10*time.Minute
	}
	opts.Pending, opts.Dead = int(*scale*10_000_000), int(*scale*1_000_000)
	opts.Only = set(*peers)
	var err error
	opts.scenarios, err = choose(*only)
	return opts, err
}

func choose(only string) ([]scenario.Scenario, error) {
	wanted := set(only)
	chosen := slices.DeleteFunc(slices.Clone(scenario.All), func(s scenario.Scenario) bool {
		return len(wanted) > 0 && !wanted[s.ID]
	})
	if len(wanted) > 0 && len(chosen) != len(wanted) {
		return nil, fmt.Errorf("%q names a scenario that there is not", only)
	}
	return chosen, nil
}

func set(list string) map[string]bool {
	names := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names[name] = true
		}
	}
	return names
}
