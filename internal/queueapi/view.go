package queueapi

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"deadletter.dev/deadletter/internal/message"
)

// payloadEncoding says how the bytes of a payload are written as a JSON string.
type payloadEncoding string

const (
	encodingUTF8   payloadEncoding = "utf-8"
	encodingBase64 payloadEncoding = "base64"
)

// encodePayload writes bytes as UTF-8 when they are, else as base64.
func encodePayload(payload []byte) (string, payloadEncoding) {
	if utf8.Valid(payload) {
		return string(payload), encodingUTF8
	}
	return base64.StdEncoding.EncodeToString(payload), encodingBase64
}

// preview is the payload that a list shows of a message: all of it, or the start that the store returned, cut at a
// character boundary where there is one, so that text stays text.
func preview(m *message.Message) (shown []byte, cut bool) {
	if len(m.Payload) == m.PayloadSize || len(m.Payload) < utf8.UTFMax {
		return m.Payload, len(m.Payload) < m.PayloadSize
	}
	shown = m.Payload
	for back := 1; back < utf8.UTFMax; back++ {
		if start := len(shown) - back; utf8.RuneStart(shown[start]) {
			if !utf8.FullRune(shown[start:]) {
				return shown[:start], true
			}
			break
		}
	}
	return shown, true
}

type headerJSON struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type consumerJSON struct {
	Instance string `json:"instance"`
	Version  string `json:"version"`
}

// failureJSON is a failure without its stack trace, which the dead letter shows.
type failureJSON struct {
	Reason      string           `json:"reason"`
	Category    message.Category `json:"category"`
	Fingerprint string           `json:"fingerprint"`
	ErrorClass  string           `json:"error_class"`
	Consumer    consumerJSON     `json:"consumer"`
	At          time.Time        `json:"at"`
}

func newHeadersJSON(headers []message.Header) []headerJSON {
	views := make([]headerJSON, len(headers))
	for i, header := range headers {
		views[i] = headerJSON(header)
	}
	return views
}

func newFailureJSON(f *message.Failure) failureJSON {
	return failureJSON{
		Reason: f.Reason, Category: f.Category, Fingerprint: f.Fingerprint, ErrorClass: f.ErrorClass,
		Consumer: consumerJSON(f.Consumer), At: f.At.UTC(),
	}
}

func utcOrNil(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	utc := at.UTC()
	return &utc
}
