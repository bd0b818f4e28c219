package message_test

import (
	"strings"
	"testing"

	"deadletter.dev/deadletter/internal/message"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class, reason string
		want          message.Category
	}{
		// Go
		{"context.deadlineExceededError", "context deadline exceeded", message.Timeout},
		{"*url.Error", `Post "https://pay.example/charge": context deadline exceeded`, message.Timeout},
		{"*url.Error", `Post "https://pay.example/charge": dial tcp 10.0.0.1:443: connect: connection refused`, message.External},
		{"*url.Error", `Post "https://pay.example/charge": EOF`, message.External},
		{"*net.OpError", "read tcp 10.0.0.1:1->10.0.0.2:2: i/o timeout", message.Timeout},
		{"*net.DNSError", "lookup db: no such host", message.External},
		{"*json.SyntaxError", "invalid character '<' looking for beginning of value", message.Validation},
		{"*json.UnmarshalTypeError", "json: cannot unmarshal string into Go struct field", message.Validation},
		{"*fmt.wrapError", "decode order: unexpected end of JSON input", message.Validation},
		{"*errors.errorString", "boom", message.Unknown},
		// gRPC
		{"*status.Error", "rpc error: code = Unavailable desc = connection error", message.External},
		{"*status.Error", "rpc error: code = DeadlineExceeded desc = too slow", message.Timeout},
		{"*status.Error", "rpc error: code = PermissionDenied desc = no", message.Auth},
		{"*status.Error", "rpc error: code = InvalidArgument desc = amount", message.Validation},
		{"*status.Error", "rpc error: code = NotFound desc = order", message.Unknown},
		{"_InactiveRpcError", "StatusCode.UNAVAILABLE: failed to connect", message.External},
		{"Error", "14 UNAVAILABLE: No connection established", message.External},
		// Java
		{"java.net.SocketTimeoutException", "Read timed out", message.Timeout},
		{"java.util.concurrent.TimeoutException", "", message.Timeout},
		{"java.net.ConnectException", "Connection refused", message.External},
		{"java.net.UnknownHostException", "db", message.External},
		{"java.lang.IllegalArgumentException", "amount must be positive", message.Validation},
		{"com.fasterxml.jackson.core.JsonParseException", "Unexpected character", message.Validation},
		{"javax.validation.ConstraintViolationException", "timeout: must be greater than 0", message.Validation},
		{"org.springframework.security.access.AccessDeniedException", "Access is denied", message.Auth},
		{"org.springframework.web.client.HttpServerErrorException$BadGateway", "502 Bad Gateway", message.External},
		{"java.lang.NullPointerException", "", message.Unknown},
		// Python
		{"requests.exceptions.ReadTimeout", "HTTPSConnectionPool: Read timed out. (read timeout=5)", message.Timeout},
		{"requests.exceptions.ConnectionError", "Max retries exceeded", message.External},
		{"json.decoder.JSONDecodeError", "Expecting value: line 1 column 1 (char 0)", message.Validation},
		{"pydantic_core._pydantic_core.ValidationError", "1 validation error for Order", message.Validation},
		{"ValueError", "invalid literal for int() with base 10: 'x'", message.Validation},
		{"PermissionError", "[Errno 13] Permission denied: '/data'", message.Auth},
		{"KeyError", "'customer'", message.Unknown},
		{"psycopg.OperationalError", "server closed the connection unexpectedly", message.External},
		// Node
		{"ECONNREFUSED", "connect ECONNREFUSED 127.0.0.1:5432", message.External},
		{"Error", "connect ETIMEDOUT 10.0.0.1:443", message.Timeout},
		{"Error", "getaddrinfo ENOTFOUND api.example", message.External},
		{"ZodError", "[]", message.Validation},
		{"SyntaxError", "Unexpected token < in JSON at position 0", message.Validation},
		{"TypeError", "Cannot read properties of undefined (reading 'id')", message.Unknown},
		{"TokenExpiredError", "jwt expired", message.Auth},
		// HTTP
		{"", "payment provider answered with HTTP 503", message.External},
		{"AxiosError", "Request failed with status code 401", message.Auth},
		{"", "unexpected status 422", message.Validation},
		{"", "HTTP/1.1 504", message.Timeout},
		{"", "status=429", message.External},
		{"", "status: 404", message.Unknown},
		{"", "400 Bad Request", message.Validation},
		// Nothing that only looks like it.
		{"", "order 503 has no lines", message.Unknown},
		{"", "shipped 401 items", message.Unknown},
		{"", "", message.Unknown},
	} {
		if got := message.Classify(c.class, c.reason); got != c.want {
			t.Errorf("%s: %q is %s, want %s", c.class, c.reason, got, c.want)
		}
	}
}

// FuzzClassify: any report is classified, as one of the categories that there are, and quickly.
func FuzzClassify(f *testing.F) {
	f.Add("java.net.ConnectException", "code = Unavailable")
	f.Add("", strings.Repeat("status ", 1000))
	f.Fuzz(func(t *testing.T, class, reason string) {
		switch got := message.Classify(class, reason); got {
		case message.Validation, message.Timeout, message.Auth, message.External, message.Unknown:
		default:
			t.Errorf("classified as %q", got)
		}
	})
}

func TestReportWithoutCategoryIsClassified(t *testing.T) {
	t.Parallel()
	report := message.Report{Reason: "connection refused", ErrorClass: "java.net.ConnectException"}
	if got := message.NewFailure(report, message.Consumer{}, message.Failure{}.At).Category; got != message.External {
		t.Errorf("classified as %s", got)
	}
	report.Category = "MINE"
	if got := message.NewFailure(report, message.Consumer{}, message.Failure{}.At).Category; got != "MINE" {
		t.Errorf("the worker's own category became %s", got)
	}
}
