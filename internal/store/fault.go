package store

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// Fault is what is wrong between us and a database.
type Fault int

const (
	// FaultOther is a statement that the server refused for a reason of its own.
	FaultOther Fault = iota
	// FaultUnavailable is a server that does not answer, is starting or stopping, or has no room.
	FaultUnavailable
	// FaultCredentials is a user or a password that the server does not accept.
	FaultCredentials
	// FaultPrivilege is a user who may not do what is needed.
	FaultPrivilege
)

// What the SQLSTATEs mean that say more than their class.
var faultsByState = map[string]struct {
	fault Fault
	text  string
}{
	"28P01": {FaultCredentials, "the server refuses the user or its password"},
	"28000": {FaultCredentials, "the server refuses the user, or a connection of this kind"},
	"3D000": {FaultCredentials, "the database does not exist"},
	"42501": {FaultPrivilege, "the user lacks a privilege"},
	"25006": {FaultUnavailable, "the server is read-only"},
	"53300": {FaultUnavailable, "the server has no connection left"},
	"55P03": {FaultUnavailable, "a lock was not to be had in time"},
	"57P01": {FaultUnavailable, "the server is shutting down"},
	"57P03": {FaultUnavailable, "the server is starting or stopping"},
}

// Diagnose tells what an error of this package means, in words that hold no host, no user and no data, so that they can
// be shown to anybody.
func Diagnose(err error) (Fault, string) {
	switch {
	case isUnsaidPooler(err):
		return FaultUnavailable, "a pooler is in between that takes no session settings, which `pooler` has to say"
	case errors.Is(err, errNotPreparing):
		return FaultUnavailable, "the pooler does not keep prepared statements apart, as `pooler` says it does"
	}
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) {
		if known, found := faultsByState[pgErr.Code]; found {
			return known.fault, known.text
		}
		if IsUnavailable(err) {
			return FaultUnavailable, "the server answers with SQLSTATE " + pgErr.Code
		}
		return FaultOther, "the server answers with SQLSTATE " + pgErr.Code
	}
	if dnsErr := (*net.DNSError)(nil); errors.As(err, &dnsErr) {
		return FaultUnavailable, "the server's name does not resolve"
	}
	if tlsErr := (*tls.CertificateVerificationError)(nil); errors.As(err, &tlsErr) {
		return FaultUnavailable, "the server's certificate is not trusted"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return FaultUnavailable, "the connection is refused"
	case pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded):
		return FaultUnavailable, "there is no answer in time"
	case IsUnavailable(err):
		return FaultUnavailable, "the connection fails"
	default:
		return FaultOther, "an operation fails"
	}
}
