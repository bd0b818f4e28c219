package queueapi

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"strconv"
	"time"
	"unicode/utf8"
)

// appender is an answer that writes itself as JSON. The answers of producers and workers do: the reflection of
// encoding/json would be a quarter of what a batch costs. They write the bytes that encoding/json would write, without
// its escapes for HTML.
type appender interface {
	appendJSON(b []byte) []byte
}

// appendReflected writes what is too rare to be an appender.
func appendReflected(b []byte, value any) ([]byte, error) {
	buffer := bytes.NewBuffer(b)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), err
}

// appendTextMember writes a member of an object. Its name comes with all that stands around it.
func appendTextMember[T string | []byte](b []byte, name string, value T) []byte {
	return appendText(append(b, name...), value)
}

// appendIntMember writes a member of an object, as appendTextMember does.
func appendIntMember(b []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(b, name...), value, 10)
}

// appendTimeMember writes a member of an object, as appendTextMember does.
func appendTimeMember(b []byte, name string, at time.Time) []byte {
	b = append(append(b, name...), '"')
	b = at.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// appendOptionalTimeMember writes null for a time that is not set.
func appendOptionalTimeMember(b []byte, name string, at *time.Time) []byte {
	if at == nil {
		return appendNullMember(b, name)
	}
	return appendTimeMember(b, name, *at)
}

// appendOptionalTextMember writes null for an empty text.
func appendOptionalTextMember(b []byte, name, value string) []byte {
	if value == "" {
		return appendNullMember(b, name)
	}
	return appendTextMember(b, name, value)
}

func appendNullMember(b []byte, name string) []byte { return append(append(b, name...), "null"...) }

// appendText writes a string.
func appendText[T string | []byte](b []byte, text T) []byte {
	b = append(b, '"')
	written := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case isPlain(c):
			i += plainLen(text[i:])
		case c == '"' || c == '\\': // Frequent, in payloads that are JSON themselves.
			b = append(append(b, text[written:i]...), '\\')
			written = i
			i++
		default:
			escape, size := escapeAt(text[i:])
			if escape != "" {
				b = append(append(b, text[written:i]...), escape...)
				written = i + size
			}
			i += size
		}
	}
	return append(append(b, text[written:]...), '"')
}

// isPlain reports that a byte is a character of ASCII that stands for itself.
func isPlain(c byte) bool { return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' }

// plainLen is how many bytes at the start of text are plain.
func plainLen[T string | []byte](text T) int {
	const word = 8
	i := 0
	for ; i+word <= len(text); i += word {
		if odd := oddBytes(load(text[i : i+word])); odd != 0 {
			return i + bits.TrailingZeros64(odd)/word
		}
	}
	for i < len(text) && isPlain(text[i]) {
		i++
	}
	return i
}

// load reads eight bytes, the first one lowest.
func load[T string | []byte](text T) uint64 {
	_ = text[7]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

// oddBytes looks at eight bytes at once. The lowest bit that is set is the highest bit of the first byte that is not
// plain; the bits above mean nothing.
func oddBytes(word uint64) uint64 {
	const (
		each  = 0x0101010101010101
		tops  = each << 7
		quote = each * '"'
		slash = each * '\\'
	)
	quotes, slashes := word^quote, word^slash
	controls := (word - each*' ') &^ word
	return (word | controls | (quotes-each)&^quotes | (slashes-each)&^slashes) & tops
}

// escapeAt is how the first character of text, which is neither plain nor quote nor backslash, is written, and its
// length. The escape is empty for one that stands for
// itself. What is no UTF-8 becomes the replacement character, and the two line ends that JavaScript knows and JSON does
// not are escaped.
func escapeAt[T string | []byte](text T) (escape string, size int) {
	if text[0] < utf8.RuneSelf {
		return escapeControl(text[0]), 1
	}
	r, size := utf8.DecodeRuneInString(string(text[:min(len(text), utf8.UTFMax)]))
	switch {
	case r == utf8.RuneError && size == 1:
		return `\ufffd`, size
	case r == '\u2028':
		return `\u2028`, size
	case r == '\u2029':
		return `\u2029`, size
	default:
		return "", size
	}
}

// escapeControl is how a control character is written.
func escapeControl(c byte) string {
	// One after the other, each of the same length.
	const controls = `\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\u0008\u0009\u000a\u000b\u000c\u000d\u000e\u000f` +
		`\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f`
	const length = len(`\u0000`)
	switch c {
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	default:
		return controls[length*int(c):][:length]
	}
}
