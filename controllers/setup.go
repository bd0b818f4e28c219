package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"deadletter.dev/deadletter/api/v1alpha1"
	"deadletter.dev/deadletter/controllers/broker"
	"deadletter.dev/deadletter/controllers/databases"
	"deadletter.dev/deadletter/controllers/queue"
	"deadletter.dev/deadletter/controllers/replay"
)

const (
	leaseName = "deadletter-operator"

	// shutdownTimeout is how long reconciliations under way may take to come to an end, a Replay's batch for one.
	shutdownTimeout = 30 * time.Second
	// readinessTimeout bounds one readiness check.
	readinessTimeout = 500 * time.Millisecond
)

// Where everything is unless said otherwise.
const (
	DefaultNamespace  = "deadletter-system"
	DefaultBrokerName = "default"
)

// Config is what an operator is started with.
type Config struct {
	// Kubernetes is the way to the API server. Nil means KUBECONFIG, the Pod's own ServiceAccount, or ~/.kube/config.
	Kubernetes *rest.Config
	// Logger takes every log line.
	Logger *slog.Logger
	// MetricsAddress serves /metrics; empty serves none.
	MetricsAddress string
	// ProbeAddress serves /healthz and /readyz; empty serves none.
	ProbeAddress string
	// LeaderElect lets only one of several operators work at a time.
	LeaderElect bool
	// OperatorNamespace holds the lease; empty means deadletter-system.
	OperatorNamespace string
	// DefaultBroker serves Queues whose namespace has no Broker `default`; empty means `default` in OperatorNamespace.
	DefaultBroker types.NamespacedName
	// Image is the queue API's, where a Broker names none: the operator's own.
	Image string
	// WatchNamespaces restricts the operator to these namespaces, in which it then needs its rights; empty means all.
	WatchNamespaces []string
	// DialFunc replaces the network on the way to databases, for an operator that runs outside the cluster.
	DialFunc databases.DialFunc
}

func (c *Config) complete() error {
	if c.Image == "" {
		return errors.New("the image of the queue API must be set")
	}

	if c.Logger == nil {
		return errors.New("a logger must be set")
	}

	if c.OperatorNamespace == "" {
		c.OperatorNamespace = DefaultNamespace
	}

	if c.DefaultBroker == (types.NamespacedName{}) {
		c.DefaultBroker = types.NamespacedName{Namespace: c.OperatorNamespace, Name: DefaultBrokerName}
	}

	if c.MetricsAddress == "" {
		c.MetricsAddress = "0"
	}

	if c.ProbeAddress == "" {
		c.ProbeAddress = "0"
	}

	if c.Kubernetes != nil {
		return nil
	}

	found, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the Kubernetes API: %w", err)
	}

	c.Kubernetes = found

	return nil
}

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=deadletter-system,resources=leases,verbs=create;get;update
// +kubebuilder:rbac:groups="",namespace=deadletter-system,resources=events,verbs=create;patch

// Run runs the operator until the context ends: reconciliations under way come to an end, the lease is given up, and
// the database pools are closed.
func Run(ctx context.Context, config Config) error {
	if err := config.complete(); err != nil {
		return err
	}

	logger := logr.FromSlogHandler(config.Logger.Handler())
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)

	mgr, err := newManager(config, logger)
	if err != nil {
		return err
	}

	registry := databases.New(databases.Options{Dial: config.DialFunc})
	defer registry.Close()

	if err := errors.Join(
		broker.Setup(ctx, mgr, registry, config.Image),
		queue.Setup(mgr, registry, config.DefaultBroker, config.WatchNamespaces...),
		replay.Setup(mgr, registry),
		addChecks(mgr),
	); err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}

	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the operator: %w", err)
	}

	return nil
}

// NewScheme knows every kind that the operator works with.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}

	return scheme, nil
}

func newManager(config Config, logger logr.Logger) (ctrl.Manager, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}

	shutdown := shutdownTimeout

	mgr, err := ctrl.NewManager(config.Kubernetes, ctrl.Options{
		Scheme: scheme,
		Logger: logger,
		Cache:  cacheOptions(config.WatchNamespaces),
		// Secrets are read when they are needed and never kept.
		Client: client.Options{
			Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}},
		},
		Metrics:                       metricsserver.Options{BindAddress: config.MetricsAddress},
		HealthProbeBindAddress:        config.ProbeAddress,
		LeaderElection:                config.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       config.OperatorNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &shutdown,
		// The names are distinct in one operator; a process may run several, one after the other or side by side.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}

	return mgr, nil
}

// addChecks lets the operator count as ready once it knows the cluster, leader or not.
func addChecks(mgr ctrl.Manager) error {
	synced := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), readinessTimeout)
		defer cancel()

		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the cache is still filling")
		}

		return nil
	}

	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("cache", synced),
	)
}
