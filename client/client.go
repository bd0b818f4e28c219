package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

// Client talks to one queue API. It is safe for concurrent use.
type Client struct {
	base      string
	http      *http.Client
	token     TokenSource
	userAgent string
	timeout   time.Duration
	retries   int
	consumer  Consumer
	tracer    trace.Tracer
	// now, random and pause are the clock and the dice: tests of decisions bring their own.
	now    func() time.Time
	random func() float64
	pause  func(ctx context.Context, d time.Duration) error
}

const (
	defaultTimeout = 30 * time.Second
	defaultRetries = 4
	// idleConnections per host: workers call one host from many goroutines, and the default of 2 would have them dial
	// over and over.
	idleConnections = 64

	modulePath = "deadletter.dev/deadletter/client"
)

// New returns a client of the queue API at an address such as http://default-api.deadletter-system.svc. A path is kept,
// for an API behind a path of a gateway. It makes no call; [Client.Ready] does.
func New(baseURL string, options ...Option) (*Client, error) {
	base, err := parseBase(baseURL)
	if err != nil {
		return nil, err
	}
	version := moduleVersion()
	c := &Client{
		base:      base,
		http:      defaultHTTPClient(),
		userAgent: "deadletter-go/" + version,
		timeout:   defaultTimeout,
		retries:   defaultRetries,
		consumer:  defaultConsumer(),
		tracer:    tracerOf(otel.GetTracerProvider(), version),
		now:       time.Now, //nolint:forbidigo // the one place where the system's clock comes in
		random:    rand.Float64,
		pause:     pause,
	}
	for _, apply := range options {
		if err := apply(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// parseBase checks an address and drops the slash at its end. Errors never repeat it: it might hold a password.
func parseBase(address string) (string, error) {
	base, err := url.Parse(address)
	switch {
	case err != nil:
		return "", errors.New("the base URL is not a URL")
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return "", errors.New("the base URL must be http://host or https://host, with or without a port and a path")
	case base.User != nil:
		return "", errors.New("the base URL must not hold credentials; use WithToken")
	case base.RawQuery != "" || base.Fragment != "" || base.ForceQuery:
		return "", errors.New("the base URL must have no query and no fragment")
	}
	return strings.TrimRight(base.String(), "/"), nil
}

func defaultHTTPClient() *http.Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if shared, ok := http.DefaultTransport.(*http.Transport); ok {
		transport = shared.Clone()
	}
	transport.MaxIdleConnsPerHost = idleConnections
	return &http.Client{
		Transport: transport,
		// The API redirects nowhere: whoever does is not the API, and must not be shown tokens and messages.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// defaultConsumer names the machine, which is the pod, and the release of the program.
func defaultConsumer() Consumer {
	var consumer Consumer
	if name, err := os.Hostname(); err == nil {
		consumer.Instance = name
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		consumer.Version = info.Main.Version
	}
	return consumer
}

// moduleVersion is the version of this module in the program that uses it.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == modulePath {
				return module.Version
			}
		}
	}
	return "devel"
}

// pause waits, or returns the context's error as soon as it ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready returns nil when the API answers that requests should be sent to it.
func (c *Client) Ready(ctx context.Context) error {
	var health struct {
		Status string `json:"status"`
	}
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/readyz", safety: readOnly}, &health)
	if err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	return nil
}
