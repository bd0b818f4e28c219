package queueapi

import (
	"encoding/base64"
	"net/http"
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

// enqueue accepts one message or a batch, all or nothing.
func (a *API) enqueue(c *call) error {
	body, err := c.strictBody()
	if err != nil {
		return err
	}
	messages, isBatch, err := decodeEnqueue(body, a.limits.MaxPayloadBytes)
	if err != nil {
		return err
	}
	ctx, cancel := c.detached()
	defer cancel()
	stored, err := a.backend.Enqueue(ctx, c.queue, messages)
	if err != nil {
		return err
	}
	a.wakeFor(c.queue, stored)
	if isBatch {
		return c.answer(http.StatusCreated, messagesJSON{Messages: newMessagesJSON(stored)})
	}
	c.w.Header().Set("Location", "/queues/"+url.PathEscape(c.queue)+"/messages/"+strconv.FormatInt(stored[0].ID, 10))
	return c.answer(http.StatusCreated, newMessageJSON(&stored[0]))
}

// decodeEnqueue reads the body of an enqueue: a message, or {"messages": [message, …]}.
func decodeEnqueue(body strictjson.Value, maxPayload int) (messages []store.NewMessage, isBatch bool, err error) {
	var in input
	if body.Kind() == strictjson.Object {
		for name := range body.Members() {
			isBatch = isBatch || name == "messages"
		}
	}
	if isBatch {
		messages = in.newMessages(body, maxPayload)
	} else {
		messages = []store.NewMessage{in.newMessage(nil, body, maxPayload)}
	}
	return messages, isBatch, in.err()
}

func (in *input) newMessages(body strictjson.Value, maxPayload int) []store.NewMessage {
	var messages []store.NewMessage
	in.object(nil, body, func(name string, p *place, v strictjson.Value) bool {
		if name != "messages" {
			return false
		}
		if !in.array(p, v, 1, maxBatch) {
			return true
		}
		for element := range v.Elements() {
			here := p.at(len(messages))
			messages = append(messages, in.newMessage(&here, element, maxPayload))
		}
		return true
	})
	return messages
}

func (in *input) newMessage(p *place, v strictjson.Value, maxPayload int) store.NewMessage {
	var (
		m        store.NewMessage
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
		default:
			return false
		}
		return true
	})
	if v.Kind() == strictjson.Object {
		here := p.in("payload")
		m.Payload = in.payload(&here, payload, encoding, maxPayload)
	}
	return m
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
