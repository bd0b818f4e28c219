package client

import (
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Option changes how a [Client] is built.
type Option func(*Client) error

// WithHTTPClient makes the client send its requests through another http.Client, which is used as it is. It should keep
// as many idle connections per host as there are workers, and have no Timeout: that would cut long polls off.
func WithHTTPClient(c *http.Client) Option {
	return func(client *Client) error {
		if c == nil {
			return errors.New("the HTTP client must not be nil")
		}
		client.http = c
		return nil
	}
}

// WithToken sends a bearer token with every request. The source is asked before every try, so that tokens which are
// renewed while the program runs are taken up; see [TokenFile].
func WithToken(source TokenSource) Option {
	return func(client *Client) error {
		client.token = source
		return nil
	}
}

// WithUserAgent replaces the User-Agent, deadletter-go and the version of this module.
func WithUserAgent(name string) Option {
	return func(client *Client) error {
		client.userAgent = name
		return nil
	}
}

// WithTimeout bounds each try of a call, from dialling to the last byte of the answer; 30 s by default. A long poll may
// take longer by what it waits. The context given to a call bounds all its tries together.
func WithTimeout(d time.Duration) Option {
	return func(client *Client) error {
		if d <= 0 {
			return errors.New("the timeout must be positive")
		}
		client.timeout = d
		return nil
	}
}

// WithRetries sets how often a call that may be repeated is tried again after a failure that may pass; 4 by default.
// With 0 no call is repeated, and no idempotency keys are made up.
func WithRetries(n int) Option {
	return func(client *Client) error {
		if n < 0 {
			return errors.New("the number of retries must not be negative")
		}
		client.retries = n
		return nil
	}
}

// WithConsumer says who works: the instance tells workers apart, the version is the release of their code. Both are
// kept with every failure. By default the instance is the host's name, which is the pod's, and the version that of the
// program's main module, if it was built from one.
func WithConsumer(instance, version string) Option {
	return func(client *Client) error {
		client.consumer = Consumer{Instance: instance, Version: version}
		return nil
	}
}

// WithTracerProvider replaces the global OpenTelemetry tracer provider.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(client *Client) error {
		if provider == nil {
			return errors.New("the tracer provider must not be nil")
		}
		client.tracer = tracerOf(provider, moduleVersion())
		return nil
	}
}
