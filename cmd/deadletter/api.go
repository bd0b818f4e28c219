package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"deadletter.dev/deadletter/internal/queueapi"
)

type apiCommand struct {
	databaseFlags

	MaxConnections          int32         `default:"16"             help:"Most connections to the database."`
	Listen                  string        `default:"127.0.0.1:8080" help:"Address to listen on."`
	Auth                    string        `default:"none"           enum:"none,kubernetes" help:"Who may call: none lets everyone who can reach the address; kubernetes asks RBAC about the bearer's service account."`
	Namespace               string        `default:""               help:"Namespace of the Broker, whose roles decide about undeclared queues. Needed by --auth=kubernetes." placeholder:"NAMESPACE"`
	UndeclaredQueues        string        `default:"allow"          enum:"allow,deny" help:"Whether a message may be sent to a queue that no Queue resource declares: allow or deny."`
	RelaxedAcknowledgements bool          `help:"Answer an acknowledgement before it is on disk: a crash of Postgres may then have a message of the last moments delivered once more."`
	RequireLeaseToken       bool          `help:"Refuse calls on a leased message that carry no lease token."`
	MaxPayloadBytes         int           `default:"1048576"        help:"Largest payload of one message."`
	MaxConcurrentRequests   int           `default:"512"            help:"Most requests handled at once; waiting long polls are not counted."`
	MaxLongPolls            int           `default:"10000"          help:"Most claims that wait at once."`
	DrainDelay              time.Duration `default:"0s"             help:"How long to go on accepting requests after readiness has begun to fail."`
	DrainTimeout            time.Duration `default:"25s"            help:"How long to wait for requests under way at the end."`
}

// Run serves until ctx ends.
func (c apiCommand) Run(ctx context.Context, logger *slog.Logger) error {
	url, err := c.url()
	if err != nil {
		return err
	}
	auth, err := c.auth()
	if err != nil {
		return err
	}
	floor := newHeapFloor()
	defer runtime.KeepAlive(floor)
	return queueapi.Run(ctx, queueapi.Config{
		Auth:                    auth,
		DatabaseURL:             url,
		Pooler:                  c.DatabasePooler,
		Schema:                  c.Schema,
		MaxConns:                c.MaxConnections,
		Listen:                  c.Listen,
		DenyUndeclaredQueues:    c.UndeclaredQueues == "deny",
		RelaxedAcknowledgements: c.RelaxedAcknowledgements,
		RequireLeaseToken:       c.RequireLeaseToken,
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

// auth says how callers are authorised; nil means not at all.
func (c apiCommand) auth() (*queueapi.AuthConfig, error) {
	if c.Auth == "none" {
		return nil, nil //nolint:nilnil // none is a choice
	}
	kubernetes, err := config.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API for --auth=%s: %w", c.Auth, err)
	}
	return &queueapi.AuthConfig{REST: kubernetes, Namespace: c.Namespace}, nil
}
