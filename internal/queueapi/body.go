package queueapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"deadletter.dev/deadletter/internal/queueapi/strictjson"
)

// maxPooledBuffer keeps a rare huge body from being held by the pool for ever.
const maxPooledBuffer = 1 << 20

//nolint:gochecknoglobals // A pool has to outlive the requests that share it.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func getBuffer() *bytes.Buffer {
	buffer, _ := buffers.Get().(*bytes.Buffer)
	buffer.Reset()
	return buffer
}

func putBuffer(buffer *bytes.Buffer) {
	if buffer.Cap() <= maxPooledBuffer {
		buffers.Put(buffer)
	}
}

// readBody reads the whole body, up to limit bytes, into a buffer that ends with the call.
func (c *call) readBody(limit int64) ([]byte, error) {
	c.body = getBuffer()
	if c.r.ContentLength > limit {
		return nil, c.bodyTooLarge(limit)
	}
	if c.r.ContentLength > 0 {
		c.body.Grow(int(c.r.ContentLength) + bytes.MinRead)
	}
	c.held = &spender{budget: c.bodies, from: http.MaxBytesReader(c.w, c.r.Body, limit)}
	_, err := c.body.ReadFrom(c.held)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, c.bodyTooLarge(limit)
	}
	switch refused := new(problem); {
	case err == nil:
		return c.body.Bytes(), nil
	case errors.As(err, &refused):
		c.w.Header().Set("Connection", "close") // As in bodyTooLarge.
		return nil, refused
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, problemRequestTimeout()
	case errors.Is(err, io.ErrUnexpectedEOF), c.r.Context().Err() != nil:
		return nil, problemBodyUnreadable()
	default:
		return nil, fmt.Errorf("%w (%w)", problemBodyUnreadable(), err)
	}
}

// dropBody gives back what the body has taken. What was read of it must not be used any more.
func (c *call) dropBody() {
	if c.body != nil {
		putBuffer(c.body)
	}
	if c.held != nil {
		c.held.giveBack()
	}
	c.body, c.held = nil, nil
}

func (c *call) bodyTooLarge(limit int64) error {
	// The rest of the body is not read, so the connection cannot be used again.
	c.w.Header().Set("Connection", "close")
	return problemTooLarge(fieldError{
		Field: "body", Code: codeTooLarge, Message: fmt.Sprintf("must be at most %d bytes in all", limit),
	})
}

// strictBody reads a body of strict JSON. An empty body gives an empty object, for routes whose fields are all
// optional.
func (c *call) strictBody(limit int64) (strictjson.Value, error) {
	body, err := c.readBody(limit)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return strictjson.Value("{}"), nil
	}
	if err := checkContentType(c.r.Header); err != nil {
		return nil, err
	}
	if !utf8.Valid(body) {
		return nil, problemInvalid(fieldError{
			Field: "body", Code: codeInvalidEncoding, Message: "must be UTF-8; send other bytes with payload_encoding base64",
		})
	}
	value, err := strictjson.Parse(body)
	if err != nil {
		return nil, problemInvalid(malformedJSON())
	}
	return value, nil
}

func malformedJSON() fieldError {
	return fieldError{Field: "body", Code: codeMalformedJSON, Message: "must be one JSON object with nothing after it"}
}

// checkContentType accepts JSON, and a missing content type, which many HTTP tools send with JSON.
func checkContentType(header http.Header) error {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return problemUnsupportedMediaType("The body must not be compressed: leave Content-Encoding out.")
	}
	contentType := header.Get("Content-Type")
	if contentType == "" || contentType == "application/json" {
		return nil
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	isJSON := mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
	charset := params["charset"]
	if err != nil || !isJSON || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return problemUnsupportedMediaType("The body must be JSON in UTF-8: send Content-Type: application/json.")
	}
	return nil
}
