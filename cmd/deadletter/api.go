package main

import (
	"context"
	"log/slog"
	"time"

	"deadletter.dev/deadletter/internal/queueapi"
)

type apiCommand struct {
	databaseFlags

	MaxConnections        int32         `default:"16"             help:"Most connections to the database."`
	Listen                string        `default:"127.0.0.1:8080" help:"Address to listen on."`
	Auth                  string        `default:"none"           enum:"none" help:"Who may call: none lets everyone who can reach the address."`
	UndeclaredQueues      string        `default:"allow"          enum:"allow,deny" help:"Whether a message may be sent to a queue that no Queue resource declares: allow or deny."`
	RequireLeaseToken     bool          `help:"Refuse calls on a leased message that carry no lease token."`
	MaxPayloadBytes       int           `default:"1048576"        help:"Largest payload of one message."`
	MaxConcurrentRequests int           `default:"512"            help:"Most requests handled at once; waiting long polls are not counted."`
	MaxLongPolls          int           `default:"10000"          help:"Most claims that wait at once."`
	DrainDelay            time.Duration `default:"0s"             help:"How long to go on accepting requests after readiness has begun to fail."`
	DrainTimeout          time.Duration `default:"25s"            help:"How long to wait for requests under way at the end."`
}

// Run serves until ctx ends.
func (c apiCommand) Run(ctx context.Context, logger *slog.Logger) error {
	url, err := c.url()
	if err != nil {
		return err
	}
	return queueapi.Run(ctx, queueapi.Config{
		DatabaseURL:          url,
		Schema:               c.Schema,
		MaxConns:             c.MaxConnections,
		Listen:               c.Listen,
		DenyUndeclaredQueues: c.UndeclaredQueues == "deny",
		RequireLeaseToken:    c.RequireLeaseToken,
		Limits: queueapi.Limits{
			MaxPayloadBytes:       c.MaxPayloadBytes,
			MaxConcurrentRequests: c.MaxConcurrentRequests,
			MaxLongPolls:          c.MaxLongPolls,
		},
		DrainDelay:   c.DrainDelay,
		DrainTimeout: c.DrainTimeout,
		Version:      version,
	}, logger)
}
