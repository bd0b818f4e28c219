package queueapi

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
	"deadletter.dev/deadletter/internal/store"
)

// Bounds of the headers of one message.
const (
	maxHeaders         = 100
	maxHeaderNameLen   = 256
	maxHeaderValueLen  = 8 << 10
	maxHeadersTotalLen = 64 << 10
)

// enqueue accepts one message or a batch, all or nothing; under a key, once.
func (a *API) enqueue(c *call) error {
	body, err := c.strictBody()
	if err != nil {
		return err
	}
	request, err := decodeEnqueue(body, a.limits.MaxPayloadBytes)
	if err != nil {
		return err
	}
	if err := request.readKey(c.r.Header); err != nil {
		return err
	}
	ctx, cancel := c.detached()
	defer cancel()
	stored, status, err := a.accept(ctx, c.queue, request)
	if err != nil {
		return err
	}
	a.wakeFor(c.queue, stored)
	if request.isBatch {
		return c.answer(status, enqueuedAnswer(stored))
	}
	c.w.Header().Set("Location", "/queues/"+url.PathEscape(c.queue)+"/messages/"+strconv.FormatInt(stored[0].ID, 10))
	return c.answer(status, messageAnswer{&stored[0]})
}

// enqueueRequest is what is to be enqueued.
type enqueueRequest struct {
	messages []store.NewMessage
	isBatch  bool
	// ids are the deduplication ids of the messages, "" for none; hasID says that there are any.
	ids   []string
	hasID bool
	// key is the Idempotency-Key, which is of the request as a whole.
	key string
}

// decodeEnqueue reads the body of an enqueue: a message, or {"messages": [message, …]}.
func decodeEnqueue(body strictjson.Value, maxPayload int) (enqueueRequest, error) {
	var (
		in      input
		request enqueueRequest
	)
	if body.Kind() == strictjson.Object {
		for name := range body.Members() {
			request.isBatch = request.isBatch || name == "messages"
		}
	}
	if request.isBatch {
		in.newMessages(&request, body, maxPayload)
	} else {
		in.newMessage(&request, nil, body, maxPayload)
	}
	return request, in.err()
}

func (in *input) newMessages(request *enqueueRequest, body strictjson.Value, maxPayload int) {
	in.object(nil, body, func(name string, p *place, v strictjson.Value) bool {
		if name != "messages" {
			return false
		}
		if !in.array(p, v, 1, maxBatch) {
			return true
		}
		for element := range v.Elements() {
			here := p.at(len(request.messages))
			in.newMessage(request, &here, element, maxPayload)
		}
		return true
	})
}

func (in *input) newMessage(request *enqueueRequest, p *place, v strictjson.Value, maxPayload int) {
	var (
		m        store.NewMessage
		id       string
		payload  strictjson.Value
		encoding = encodingUTF8
	)
	in.object(p, v, func(name string, p *place, v strictjson.Value) bool {
		switch name {
		case "payload":
			payload = v
		case "payload_encoding":
			encoding = in.encoding(p, v)
		case "headers":
			m.Headers = in.headers(p, v)
		case "max_retries":
			m.MaxRetries = int(in.integer(p, v, message.MinRetries, message.MaxRetries))
		case "delay_seconds":
			m.Delay = time.Duration(in.integer(p, v, 0, maxDelaySeconds)) * time.Second
		case "priority":
			m.Priority = int(in.integer(p, v, 0, message.MaxPriority))
		case "group_key":
			m.GroupKey = in.filled(p, v, message.MaxGroupKeyBytes, "leave it out for a message of no group")
		case "ttl_seconds":
			m.TTL = time.Duration(in.integer(p, v, 1, maxTTLSeconds)) * time.Second
		case "deduplication_id":
			id = in.filled(p, v, maxKeyBytes, "leave it out to accept the message in any case")
		default:
			return false
		}
		return true
	})
	if v.Kind() == strictjson.Object {
		here := p.in("payload")
		m.Payload = in.payload(&here, payload, encoding, maxPayload)
	}
	request.messages, request.ids = append(request.messages, m), append(request.ids, id)
	request.hasID = request.hasID || id != ""
}

func (in *input) encoding(p *place, v strictjson.Value) payloadEncoding {
	if v.Kind() == strictjson.String {
		text, _ := v.Text()
		if encoding := payloadEncoding(text); encoding == encodingUTF8 || encoding == encodingBase64 {
			return encoding
		}
	}
	in.refuse(p, codeInvalidValue, "must be 'utf-8' or 'base64'")
	return ""
}

// payload reads the bytes of a payload. v is nil when the member is absent.
func (in *input) payload(p *place, v strictjson.Value, encoding payloadEncoding, limit int) []byte {
	switch {
	case v == nil:
		in.refuse(p, codeRequired, "must be given: a non-empty string")
		return nil
	case v.Kind() != strictjson.String:
		in.refuse(p, codeWrongType, "must be a string, not %s; encode structured data into a string", article(v.Kind()))
		return nil
	}
	payload, exact := v.AppendText(make([]byte, 0, len(v)))
	if !exact {
		in.refuse(p, codeInvalidEncoding,
			"must not contain an unpaired surrogate; send such bytes with payload_encoding base64")
		return nil
	}
	if encoding == encodingBase64 {
		decoded, err := base64.StdEncoding.Strict().AppendDecode(payload[:0:0], payload)
		if err != nil || hasLineBreak(payload) {
			in.refuse(p, codeInvalidEncoding, "must be standard padded base64 without line breaks (RFC 4648 section 4)")
			return nil
		}
		payload = decoded
	}
	switch {
	case len(payload) == 0:
		in.refuse(p, codeRequired, "must not be empty")
	case len(payload) > limit:
		in.tooLarge = true
		in.refuse(p, codeTooLarge, "must be at most %d bytes", limit)
	}
	return payload
}

// hasLineBreak finds what the base64 decoder of the standard library skips.
func hasLineBreak(text []byte) bool {
	for _, c := range text {
		if c == '\r' || c == '\n' {
			return true
		}
	}
	return false
}

func (in *input) headers(p *place, v strictjson.Value) []message.Header {
	if !in.array(p, v, 0, maxHeaders) {
		return nil
	}
	var (
		headers []message.Header
		total   int
	)
	for element := range v.Elements() {
		here := p.at(len(headers))
		header := in.header(&here, element)
		total += len(header.Name) + len(header.Value)
		headers = append(headers, header)
	}
	if total > maxHeadersTotalLen {
		in.refuse(p, codeTooLong, "must be at most %d bytes of names and values together", maxHeadersTotalLen)
	}
	return headers
}

func (in *input) header(p *place, v strictjson.Value) message.Header {
	var (
		header            message.Header
		hasName, hasValue bool
	)
	in.object(p, v, func(name string, p *place, v strictjson.Value) bool {
		switch name {
		case "name":
			header.Name, hasName = in.text(p, v, maxHeaderNameLen), true
			if string(v) == `""` {
				in.refuse(p, codeRequired, "must not be empty")
			}
		case "value":
			header.Value, hasValue = in.text(p, v, maxHeaderValueLen), true
		default:
			return false
		}
		return true
	})
	if v.Kind() != strictjson.Object {
		return header
	}
	in.require(p, "name", hasName)
	in.require(p, "value", hasValue)
	return header
}
