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
	"time"
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

// bodyKind is what a route takes as a body.
type bodyKind int

const (
	// noBody is the body of a route that reads none.
	noBody bodyKind = iota
	// smallBody carries neither payloads nor reports.
	smallBody
	// enqueueBody carries payloads.
	enqueueBody
	// settleBody is a batch of settlements.
	settleBody
	// reportBody is one failure report.
	reportBody
)

// maxBody is the largest body of a kind.
func (l Limits) maxBody(kind bodyKind) int64 {
	switch kind {
	case enqueueBody:
		return l.maxEnqueueBytes()
	case settleBody:
		return maxSettleBytes
	case reportBody:
		return maxReportBytes
	case smallBody, noBody:
		return maxSmallBytes
	default:
		return maxSmallBytes
	}
}

// receive reads the whole body that the route takes, before the request takes a place among those that are handled: a
// slow sender costs others nothing but what it has sent of the budget, and not for long.
func (c *call) receive(kind bodyKind, limits Limits) error {
	if kind == noBody {
		if c.r.ContentLength != 0 {
			// It is not waited for, neither now nor by the HTTP server when the answer is written.
			c.w.Header().Set("Connection", "close")
		}
		return nil
	}
	err := c.readBody(kind, limits.maxBody(kind), limits.BodyTimeout)
	refused := new(problem)
	switch {
	case err == nil:
		c.sent = c.body.Bytes()
		return nil
	case errors.As(err, &refused):
		c.w.Header().Set("Connection", "close") // As in bodyTooLarge.
		return refused
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemRequestTimeout()
	case errors.Is(err, io.ErrUnexpectedEOF), c.clientGone():
		return problemBodyUnreadable()
	default:
		return fmt.Errorf("%w (%w)", problemBodyUnreadable(), err)
	}
}

// firstGrowth is how much memory a body gets before any of it has arrived.
const firstGrowth = 64 << 10

// readBody reads up to limit bytes into a buffer that ends with the call.
func (c *call) readBody(kind bodyKind, limit int64, part time.Duration) error {
	c.body = getBuffer()
	if c.r.ContentLength > limit && kind != reportBody {
		return c.bodyTooLarge(limit)
	}
	if c.r.ContentLength > 0 {
		c.body.Grow(int(min(c.r.ContentLength, firstGrowth)) + bytes.MinRead)
	}
	if c.r.ContentLength > 0 && c.r.ContentLength <= freeBytes {
		// Too small to be worth deadlines of its own, which cost more than it does: it takes nothing of the budget, and the
		// server's time for reading ends it.
		_, err := c.body.ReadFrom(c.r.Body)
		return err //nolint:wrapcheck // told apart by receive
	}
	from := newPaced(c.w, c.r, part)
	c.held = &spender{budget: c.bodies, free: freeBytes, from: io.LimitReader(from, limit+1)}
	if _, err := c.body.ReadFrom(c.held); err != nil {
		return err //nolint:wrapcheck // told apart by receive
	}
	if int64(c.body.Len()) > limit {
		if kind != reportBody {
			return c.bodyTooLarge(limit)
		}
		if err := c.searchRest(from); err != nil {
			return err
		}
	}
	return nil
}

// searchRest looks for the lease token in what follows the part of a failure report that is kept.
func (c *call) searchRest(from io.Reader) error {
	c.rest = new(tokenScan)
	kept := c.body.Bytes()
	_, _ = c.rest.Write(kept[len(kept)-longestField:])
	most := int64(maxSeenBytes - len(kept))
	n, err := io.Copy(c.rest, io.LimitReader(from, most+1))
	if err != nil {
		return err //nolint:wrapcheck // told apart by receive
	}
	if c.rest.end(n <= most); n > most {
		c.w.Header().Set("Connection", "close") // As in bodyTooLarge.
	}
	return nil
}

// dropBody gives back what the body has taken. What was read of it must not be used any more.
func (c *call) dropBody() {
	if c.body != nil {
		putBuffer(c.body)
	}
	if c.held != nil {
		c.held.giveBack()
	}
	c.body, c.held, c.sent = nil, nil, nil
}

func (c *call) bodyTooLarge(limit int64) error {
	// The rest of the body is not read, so the connection cannot be used again.
	c.w.Header().Set("Connection", "close")
	return problemTooLarge(fieldError{
		Field: "body", Code: codeTooLarge, Message: fmt.Sprintf("must be at most %d bytes in all", limit),
	})
}

// strictBody is the body as strict JSON. An empty body gives an empty object, for routes whose fields are all optional.
func (c *call) strictBody() (strictjson.Value, error) {
	body := c.sent
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

// checkContentEncoding refuses compressed bodies.
func checkContentEncoding(header http.Header) error {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return problemUnsupportedMediaType("The body must not be compressed: leave Content-Encoding out.")
	}
	return nil
}

// checkContentType accepts JSON, and a missing content type, which many HTTP tools send with JSON.
func checkContentType(header http.Header) error {
	if err := checkContentEncoding(header); err != nil {
		return err
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
