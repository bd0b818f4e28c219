package strictjson

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is the decoded text of a string. exact is false when the string holds a surrogate without its pair, which no
// Unicode text can hold; its escape is then kept as it was written.
func (v Value) Text() (text string, exact bool) {
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	decoded, exact := v.AppendText(make([]byte, 0, len(inner)))
	return string(decoded), exact
}

// AppendText appends the decoded text of a string to dst; see Text.
func (v Value) AppendText(dst []byte) (text []byte, exact bool) {
	rest := v[1 : len(v)-1]
	exact = true
	for {
		escape := bytes.IndexByte(rest, '\\')
		if escape < 0 {
			return append(dst, rest...), exact
		}
		dst = append(dst, rest[:escape]...)
		rest = rest[escape:]
		var (
			used int
			ok   bool
		)
		dst, used, ok = appendEscape(dst, rest)
		exact = exact && ok
		rest = rest[used:]
	}
}

// appendEscape decodes the escape sequence that rest starts with and returns how many bytes it spans.
func appendEscape(dst, rest []byte) (text []byte, used int, exact bool) {
	switch rest[1] {
	case 'b':
		return append(dst, '\b'), 2, true
	case 'f':
		return append(dst, '\f'), 2, true
	case 'n':
		return append(dst, '\n'), 2, true
	case 'r':
		return append(dst, '\r'), 2, true
	case 't':
		return append(dst, '\t'), 2, true
	case 'u':
		return appendCodePoint(dst, rest)
	default: // '"', '\\' and '/' stand for themselves.
		return append(dst, rest[1]), 2, true
	}
}

const (
	escapeLen = len(`\u0000`)
	pairLen   = 2 * escapeLen
)

func appendCodePoint(dst, rest []byte) (text []byte, used int, exact bool) {
	r := hexRune(rest[2:escapeLen])
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r), escapeLen, true
	}
	if len(rest) >= pairLen && rest[escapeLen] == '\\' && rest[escapeLen+1] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(rest[escapeLen+2:pairLen])); pair != utf8.RuneError {
			return utf8.AppendRune(dst, pair), pairLen, true
		}
	}
	return append(dst, rest[:escapeLen]...), escapeLen, false
}

func hexRune(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
