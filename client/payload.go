package client

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"
)

// textPayload is how bytes are written in JSON.
type textPayload struct {
	Text     *string `json:"payload,omitempty"`
	Encoding string  `json:"payload_encoding,omitempty"`
}

const (
	encodingUTF8   = "utf-8"
	encodingBase64 = "base64"
)

// encodePayload writes bytes as text if they are, else as base64.
func encodePayload(payload []byte) textPayload {
	if payload == nil {
		return textPayload{}
	}
	text, encoding := string(payload), encodingUTF8
	if !utf8.Valid(payload) || shorterAsBase64(payload) {
		text, encoding = base64.StdEncoding.EncodeToString(payload), encodingBase64
	}
	return textPayload{Text: &text, Encoding: encoding}
}

// shorterAsBase64 recognises bytes that happen to be UTF-8 but are mostly control characters: each takes six in JSON.
func shorterAsBase64(payload []byte) bool {
	escaped := 0
	for _, b := range payload {
		if b < ' ' && b != '\n' && b != '\r' && b != '\t' {
			escaped++
		}
	}
	const extra, third = 5, 3
	return escaped*extra > len(payload)/third
}

// decode returns the bytes. Without a payload there are none.
func (p textPayload) decode() ([]byte, error) {
	if p.Text == nil {
		return nil, nil
	}
	switch p.Encoding {
	case encodingUTF8, "":
		return []byte(*p.Text), nil
	case encodingBase64:
		payload, err := base64.StdEncoding.Strict().DecodeString(*p.Text)
		if err != nil {
			return nil, fmt.Errorf("payload: %w", err)
		}
		return payload, nil
	default:
		return nil, fmt.Errorf("payload: unknown encoding %q", p.Encoding)
	}
}
