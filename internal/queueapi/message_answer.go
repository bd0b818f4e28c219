package queueapi

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"deadletter.dev/deadletter/internal/message"
)

// messageView is what an answer shows of a message.
type messageView int

const (
	// wholeView has all but the lease token.
	wholeView messageView = iota
	// claimedView is for the claimer of the message: the only view that shows the lease token.
	claimedView
	// listedView is for lists, where long payloads are cut.
	listedView
)

// messageAnswer is one message.
type messageAnswer struct{ *message.Message }

func (a messageAnswer) appendJSON(b []byte) []byte { return appendMessage(b, a.Message, wholeView) }

// enqueuedAnswer are the messages of a batch.
type enqueuedAnswer []message.Message

func (a enqueuedAnswer) appendJSON(b []byte) []byte {
	b = append(b, `{"messages":`...)
	return append(appendMessages(b, a, wholeView), '}')
}

func appendMessages(b []byte, messages []message.Message, view messageView) []byte {
	b = append(b, '[')
	for i := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, &messages[i], view)
	}
	return append(b, ']')
}

// appendMessage writes a message.
func appendMessage(b []byte, m *message.Message, view messageView) []byte {
	token := ""
	if view == claimedView && m.Lease != nil {
		token = m.Lease.Token
	}
	payload, cut := m.Payload, false
	if view == listedView {
		payload, cut = preview(m)
	}
	b = appendState(append(b, '{'), m, token)
	b = appendPayload(b, payload)
	b = appendIntMember(b, `,"payload_size":`, int64(m.PayloadSize))
	if cut {
		b = append(b, `,"payload_truncated":true`...)
	}
	b = appendHeaders(append(b, `,"headers":`...), m.Headers)
	return append(b, '}')
}

// appendState writes the members of a message without its contents. The token is left out when it is empty.
func appendState(b []byte, m *message.Message, token string) []byte {
	b = appendIntMember(b, `"id":`, m.ID)
	b = appendTextMember(b, `,"queue":`, m.Queue)
	b = appendTextMember(b, `,"status":`, string(m.Status))
	b = appendIntMember(b, `,"priority":`, int64(m.Priority))
	b = appendOptionalTextMember(b, `,"group_key":`, m.GroupKey)
	b = appendIntMember(b, `,"retry_count":`, int64(m.RetryCount))
	b = appendIntMember(b, `,"max_retries":`, int64(m.MaxRetries))
	b = appendIntMember(b, `,"delivery_count":`, int64(m.DeliveryCount))
	b = appendIntMember(b, `,"replay_count":`, int64(m.ReplayCount))
	b = appendOptionalTimeMember(b, `,"retry_after":`, m.RetryAfter)
	b = appendOptionalTimeMember(b, `,"expires_at":`, m.ExpiresAt)
	b = appendLastFailure(b, m.LastFailure)
	if token != "" {
		b = appendTextMember(b, `,"lease_token":`, token)
	}
	if m.Lease != nil {
		b = appendTimeMember(b, `,"lease_expires_at":`, m.Lease.ExpiresAt)
	} else {
		b = appendNullMember(b, `,"lease_expires_at":`)
	}
	b = appendOptionalTimeMember(b, `,"first_failure_at":`, m.FirstFailureAt)
	b = appendOptionalTimeMember(b, `,"dead_at":`, m.DeadAt)
	b = appendTimeMember(b, `,"created_at":`, m.CreatedAt)
	return appendTimeMember(b, `,"updated_at":`, m.UpdatedAt)
}

func appendLastFailure(b []byte, f *message.Failure) []byte {
	if f == nil {
		return append(b, `,"last_error":null,"last_failure":null`...)
	}
	b = appendTextMember(b, `,"last_error":`, f.Reason)
	b = appendTextMember(b, `,"last_failure":{"reason":`, f.Reason)
	b = appendTextMember(b, `,"category":`, string(f.Category))
	b = appendTextMember(b, `,"fingerprint":`, f.Fingerprint)
	b = appendTextMember(b, `,"error_class":`, f.ErrorClass)
	b = appendTextMember(b, `,"consumer":{"instance":`, f.Consumer.Instance)
	b = appendTextMember(b, `,"version":`, f.Consumer.Version)
	b = appendTimeMember(b, `},"at":`, f.At)
	return append(b, '}')
}

// appendPayload writes bytes as UTF-8 when they are, else as base64.
func appendPayload(b, payload []byte) []byte {
	if utf8.Valid(payload) {
		b = appendTextMember(b, `,"payload":`, payload)
		return append(b, `,"payload_encoding":"`+encodingUTF8+`"`...)
	}
	b = base64.StdEncoding.AppendEncode(append(b, `,"payload":"`...), payload)
	return append(b, `","payload_encoding":"`+encodingBase64+`"`...)
}

func appendHeaders(b []byte, headers []message.Header) []byte {
	b = append(b, '[')
	for i, header := range headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTextMember(b, `{"name":`, header.Name)
		b = appendTextMember(b, `,"value":`, header.Value)
		b = append(b, '}')
	}
	return append(b, ']')
}

// pageAnswer is a page of a queue's messages.
type pageAnswer struct {
	messages []message.Message
	// next is the cursor of the next page; it is empty on the last one.
	next string
}

func (a pageAnswer) appendJSON(b []byte) []byte {
	b = appendMessages(append(b, `{"messages":`...), a.messages, listedView)
	b = strconv.AppendInt(append(b, `,"count":`...), int64(len(a.messages)), 10)
	b = appendOptionalTextMember(b, `,"next_cursor":`, a.next)
	return append(b, '}')
}
