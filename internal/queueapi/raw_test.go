package queueapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// raw sends a request whose path is not rewritten by a client.
func raw(t *testing.T, url, method, path string) *response {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const request = "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	if _, err := fmt.Fprintf(conn, request, method, path); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return read(t, answer)
}

// post sends a body with exactly these headers.
func post(t *testing.T, url string, header http.Header, body string) *response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, answer)
}

func read(t *testing.T, answer *http.Response) *response {
	t.Helper()
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &response{t: t, status: answer.StatusCode, header: answer.Header, body: body}
}
