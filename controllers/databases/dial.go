package databases

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
)

// DialFunc opens the connection to a database server.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// QualifyHost makes a Service's bare name mean what it means to the Broker's own pods: a Service of their namespace.
// Addresses, names with a dot and the local host stay as they are.
func QualifyHost(host, namespace string) string {
	if host == "" || host == "localhost" || strings.ContainsAny(host, "./") {
		return host
	}

	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}

	return host + "." + namespace + ".svc"
}

// dialerOf returns the way to the database of a Broker in namespace.
func dialerOf(dial DialFunc, namespace string) DialFunc {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}

	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return dial(ctx, network, address)
		}

		qualified := QualifyHost(host, namespace)

		conn, err := dial(ctx, network, net.JoinHostPort(qualified, port))
		if dnsErr := (*net.DNSError)(nil); qualified != host && errors.As(err, &dnsErr) && dnsErr.IsNotFound {
			// No Service after all: a name that only the operator's own resolver knows.
			return dial(ctx, network, address)
		}

		return conn, err
	}
}
