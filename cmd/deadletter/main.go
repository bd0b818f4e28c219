// Command deadletter is the whole product in one binary: the operator, the queue API and the schema migrations.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is set at build time.
var version = "dev"

const description = `Message queues in Postgres with the dead letter queue as the first-class part.

Every flag can also be given as the environment variable shown beside it.`

type cli struct {
	Log logging `embed:"" prefix:"log-"`

	API      apiCommand      `cmd:"" help:"Serve the queue API."`
	Migrate  migrateCommand  `cmd:"" help:"Create or upgrade the database schema."`
	Operator operatorCommand `cmd:"" help:"Reconcile Brokers, Queues and Replays in Kubernetes."`
	Version  versionCommand  `cmd:"" help:"Print the version."`
}

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run() error {
	fmt.Println("deadletter", version)
	return nil
}

func main() {
	var app cli
	parser := kong.Must(&app,
		kong.Name("deadletter"), kong.Description(description), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.DefaultEnvars("DEADLETTER"),
	)
	command, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(err)

	logger := app.Log.logger()
	slog.SetDefault(logger)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)

	command.BindTo(ctx, (*context.Context)(nil))
	if err := command.Run(logger); err != nil && !errors.Is(err, context.Canceled) {
		logger.Error("stopped", "error", err)
		os.Exit(1) //nolint:gocritic // the deferred stop only ends signal handling
	}
}
