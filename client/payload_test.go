package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEncodings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payload []byte
		want    string
	}{
		"nothing":            {nil, `{}`},
		"empty":              {[]byte{}, `{"payload":"","payload_encoding":"utf-8"}`},
		"text":               {[]byte("a<b> ü\n"), `{"payload":"a<b> ü\n","payload_encoding":"utf-8"}`},
		"not UTF-8":          {[]byte{0xff}, `{"payload":"/w==","payload_encoding":"base64"}`},
		"a surrogate":        {[]byte("\xed\xa0\x80"), `{"payload":"7aCA","payload_encoding":"base64"}`},
		"a NUL":              {[]byte{0}, `{"payload":"AA==","payload_encoding":"base64"}`},
		"a NUL in much text": {[]byte("a NUL \x00 in text"), `{"payload":"a NUL \u0000 in text","payload_encoding":"utf-8"}`},
		"the mark of errors": {[]byte("\ufffd"), `{"payload":"` + "\ufffd" + `","payload_encoding":"utf-8"}`},
	} {
		got, err := encode(encodePayload(c.payload))
		if err != nil || strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestWhatIsNoPayload(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"payload": "AA=", "payload_encoding": "base64"}`,
		`{"payload": "A A=", "payload_encoding": "base64"}`,
		`{"payload": "x", "payload_encoding": "rot13"}`,
		`{"payload": 7}`,
	} {
		if err := json.Unmarshal([]byte(text), new(Message)); err == nil {
			t.Errorf("%s was taken", text)
		}
		letter := strings.ReplaceAll(text, "payload", "original_body")
		if err := json.Unmarshal([]byte(letter), new(DeadLetter)); err == nil {
			t.Errorf("%s was taken", letter)
		}
	}
}

// FuzzPayloadRoundTrip: whatever bytes a payload has, they come back as they were.
func FuzzPayloadRoundTrip(f *testing.F) {
	for _, seed := range [][]byte{nil, []byte("text"), {0}, {0xff, 0}, []byte("\u2028\ufffd"), allBytes()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		raw, err := json.Marshal(Message{Payload: payload})
		if err != nil {
			t.Fatal(err)
		}
		var got Message
		if err := json.Unmarshal(raw, &got); err != nil || !bytes.Equal(got.Payload, payload) {
			t.Fatalf("%q came back as %q by %s: %v", payload, got.Payload, raw, err)
		}
	})
}

// FuzzPayloadDecoding: whatever an answer holds is read or refused, and what was read can be written and read again.
func FuzzPayloadDecoding(f *testing.F) {
	f.Add([]byte(`{"id": 1, "payload": "/w==", "payload_encoding": "base64"}`))
	f.Add([]byte(`{"payload": "\ud800", "payload_encoding": "utf-8", "headers": [{}]}`))
	f.Add([]byte(`{"payload": null, "retry_after": null, "last_failure": {}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var first, second Message
		if json.Unmarshal(text, &first) != nil {
			return
		}
		raw, err := json.Marshal(first)
		if err != nil {
			t.Skip() // A year that no time can be written with.
		}
		if err := json.Unmarshal(raw, &second); err != nil {
			t.Fatalf("%s was read and written as %s: %v", text, raw, err)
		}
		if !bytes.Equal(first.Payload, second.Payload) || first.ID != second.ID {
			t.Fatalf("%q became %q", first.Payload, second.Payload)
		}
	})
}

// FuzzLegible: what is kept of a text is UTF-8, within its limit, and stays as it is.
func FuzzLegible(f *testing.F) {
	f.Add("a\x00\xff\u2028", 64)
	f.Add(strings.Repeat("ü", 50), 64)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = min(max(limit, 64), 4096)
		got := legible(text, limit)
		if !utf8.ValidString(got) || len(got) > limit || legible(got, limit) != got {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
