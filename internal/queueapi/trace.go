package queueapi

import (
	"log/slog"
	"net/http"
	"strings"
)

// The lengths of the parts of a W3C traceparent: version, trace id, parent id, flags.
const (
	traceVersionLen = 2
	traceIDLen      = 32
	spanIDLen       = 16
	traceFlagsLen   = 2
)

// traceAttrs are the log attributes of the caller's W3C trace context, if it sent a valid one.
func traceAttrs(header http.Header) []slog.Attr {
	parts := strings.Split(header.Get("Traceparent"), "-")
	const least = 4
	if len(parts) < least || (parts[0] == "00" && len(parts) > least) || parts[0] == "ff" {
		return nil
	}
	for i, length := range []int{traceVersionLen, traceIDLen, spanIDLen, traceFlagsLen} {
		if len(parts[i]) != length || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return nil
		}
	}
	if strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return nil
	}
	return []slog.Attr{
		slog.String("trace_id", parts[1]), slog.String("span_id", parts[2]), slog.String("trace_flags", parts[3]),
	}
}
