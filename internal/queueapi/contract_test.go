package queueapi_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"deadletter.dev/deadletter/internal/queueapi"
)

// contract is the validator of the served document, which all tests share.
var contract = sync.OnceValues(func() (validator.Validator, error) {
	raw, err := queueapi.OpenAPI()
	if err != nil {
		return nil, err
	}
	document, err := libopenapi.NewDocument(raw)
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return v, nil
})

func TestOpenAPIDocumentIsValid(t *testing.T) {
	t.Parallel()
	v, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		for _, e := range errs {
			t.Errorf("%s: %s", e.Message, e.Reason)
			for _, detail := range e.SchemaValidationErrors {
				t.Errorf("  %s: %s", detail.KeywordLocation, detail.Reason)
			}
		}
	}
}

// undocumented are statuses that any path may answer for reasons outside the document's operations.
func undocumented(request *http.Request, status int) bool {
	switch request.Method {
	case http.MethodGet, http.MethodPost:
		return status == http.StatusMethodNotAllowed || canonicalPath(request.URL) == ""
	default:
		return true // HEAD, OPTIONS and methods that no path answers.
	}
}

// checkContract fails the test when the answer is not as documented, or when a request that was accepted is not.
func checkContract(t *testing.T, request *http.Request, sent []byte, answer *http.Response, body []byte) {
	t.Helper()
	if undocumented(request, answer.StatusCode) {
		return
	}
	v, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	documented := request.Clone(t.Context())
	documented.URL = &url.URL{
		Scheme: "http", Host: "localhost", Path: canonicalPath(request.URL), RawQuery: request.URL.RawQuery,
	}
	documented.Body = io.NopCloser(bytes.NewReader(sent))
	documented.ContentLength = int64(len(sent))
	recorded := *answer
	recorded.Body = io.NopCloser(bytes.NewReader(body))
	ok, errs := v.ValidateHttpResponse(documented, &recorded)
	if answer.StatusCode < http.StatusBadRequest && !lenient(documented.URL.Path) && len(sent) > 0 {
		requestOK, requestErrs := v.ValidateHttpRequest(documented)
		ok, errs = ok && requestOK, append(errs, requestErrs...)
	}
	if ok {
		return
	}
	for _, e := range errs {
		t.Errorf("%s %s -> %d: %s: %s", request.Method, request.URL, answer.StatusCode, e.Message, e.Reason)
		for _, detail := range e.SchemaValidationErrors {
			t.Errorf("  %s: %s", detail.KeywordLocation, detail.Reason)
		}
	}
	t.Errorf("sent %.300s, answered %.600s", sent, body)
}

// lenient paths take reports that the document does not describe.
func lenient(path string) bool { return strings.HasSuffix(path, "/fail") }

// canonicalPath is the documented path that the request is for, with plain values: the validator does not decode %2F.
// It is empty when there is none.
func canonicalPath(from *url.URL) string {
	parts := strings.Split(strings.TrimPrefix(from.EscapedPath(), "/"), "/")
	if len(parts) == 1 || parts[0] != "queues" {
		if len(parts) == 1 && slices.Contains([]string{"queues", "healthz", "readyz", "metrics", "openapi.json"}, parts[0]) {
			return "/" + parts[0]
		}
		return ""
	}
	if parts[1] == "" || len(parts) > 5 {
		return ""
	}
	parts[1] = "orders"
	if len(parts) >= 4 && parts[3] != "groups" {
		parts[3] = "1"
	}
	return "/" + strings.Join(parts, "/")
}
