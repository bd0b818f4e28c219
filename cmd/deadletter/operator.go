package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"deadletter.dev/deadletter/controllers"
)

type operatorCommand struct {
	Image           string     `help:"Image of the queue API where a Broker names none; normally the operator's own." placeholder:"IMAGE" required:""`                         //nolint:lll // struct tag
	Namespace       string     `default:"deadletter-system" help:"Namespace of the operator, which holds its lease."`                                                          //nolint:lll // struct tag
	DefaultBroker   objectName `help:"Broker of Queues whose namespace has no Broker 'default'; 'default' in the operator's namespace if unset." placeholder:"NAMESPACE/NAME"` //nolint:lll // struct tag
	WatchNamespaces []string   `help:"Work in these namespaces only, separated by commas; all if unset." placeholder:"NAMESPACE"`                                              //nolint:lll // struct tag
	LeaderElect     bool       `default:"true" help:"Let only one of several operators work at a time." negatable:""`
	MetricsAddress  string     `default:":8080" help:"Address that serves /metrics; empty serves none."`
	ProbeAddress    string     `default:":8081" help:"Address that serves /healthz and /readyz; empty serves none."`
}

// objectName is namespace/name, or nothing.
type objectName types.NamespacedName

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *objectName) UnmarshalText(text []byte) error {
	namespace, name, found := strings.Cut(string(text), "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("%q must have the form NAMESPACE/NAME", text)
	}
	*n = objectName{Namespace: namespace, Name: name}
	return nil
}

// Run reconciles until ctx ends.
func (c operatorCommand) Run(ctx context.Context, logger *slog.Logger) error {
	return controllers.Run(ctx, controllers.Config{
		Logger:            logger,
		MetricsAddress:    c.MetricsAddress,
		ProbeAddress:      c.ProbeAddress,
		LeaderElect:       c.LeaderElect,
		OperatorNamespace: c.Namespace,
		DefaultBroker:     types.NamespacedName(c.DefaultBroker),
		Image:             c.Image,
		WatchNamespaces:   c.WatchNamespaces,
	})
}
