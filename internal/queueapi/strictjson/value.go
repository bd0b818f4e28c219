package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
)

// ErrSyntax is returned for bytes that are not exactly one JSON value.
var ErrSyntax = errors.New("not a single valid JSON value")

// Kind is the type of a JSON value.
type Kind string

// The kinds of JSON values; their text is fit for error messages.
const (
	Object Kind = "object"
	Array  Kind = "array"
	String Kind = "string"
	Number Kind = "number"
	Bool   Kind = "boolean"
	Null   Kind = "null"
)

// Value is one JSON value of a checked document, without surrounding white space. It aliases the document's bytes.
type Value []byte

// Parse checks that body is one JSON value with nothing but white space around it.
func Parse(body []byte) (Value, error) {
	if !json.Valid(body) {
		return nil, ErrSyntax
	}
	return Value(bytes.Trim(body, " \t\r\n")), nil
}

// Kind returns the type of the value.
func (v Value) Kind() Kind {
	switch v[0] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		return Number
	}
}

// Bool is the value of a boolean; ok is false for any other kind.
func (v Value) Bool() (value, ok bool) {
	return v[0] == 't', v.Kind() == Bool
}

// maxExactFloat is the largest integer up to which every integer is a float64.
const maxExactFloat = 1 << 53

// Int is the value of an integral number. As in JSON Schema, 3.0 and 3e0 are integers; ok is false for everything else
// and for numbers that an int64 cannot hold.
func (v Value) Int() (value int64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxExactFloat {
		return 0, false
	}
	return int64(f), true
}

// Members walks the members of an object in order, duplicates included. Names are decoded as by Text.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for at := skipSpace(v, 1); v[at] != '}'; {
			end := valueEnd(v, at)
			name, _ := v[at:end].Text()
			at = skipSpace(v, skipSpace(v, end)+1)
			end = valueEnd(v, at)
			if !yield(name, v[at:end]) {
				return
			}
			at = nextItem(v, end)
		}
	}
}

// Elements walks the elements of an array in order.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for at := skipSpace(v, 1); v[at] != ']'; {
			end := valueEnd(v, at)
			if !yield(v[at:end]) {
				return
			}
			at = nextItem(v, end)
		}
	}
}

// nextItem returns where the item after the one that ends at end starts, or where the container closes.
func nextItem(doc []byte, end int) int {
	at := skipSpace(doc, end)
	if doc[at] == ',' {
		at = skipSpace(doc, at+1)
	}
	return at
}

func skipSpace(doc []byte, at int) int {
	for doc[at] == ' ' || doc[at] == '\t' || doc[at] == '\r' || doc[at] == '\n' {
		at++
	}
	return at
}

// valueEnd returns the index after the value that starts at start.
func valueEnd(doc []byte, start int) int {
	switch doc[start] {
	case '"':
		return stringEnd(doc, start)
	case '{', '[':
		return containerEnd(doc, start)
	}
	at := start
	for at < len(doc) && strings.IndexByte(" \t\r\n,]}", doc[at]) < 0 {
		at++
	}
	return at
}

// stringEnd returns the index after the closing quote: the first quote that an even number of backslashes precedes.
func stringEnd(doc []byte, start int) int {
	for at := start + 1; ; at++ {
		at += bytes.IndexByte(doc[at:], '"')
		escapes := 0
		for doc[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at + 1
		}
	}
}

func containerEnd(doc []byte, start int) int {
	depth := 0
	for at := start; ; at++ {
		switch doc[at] {
		case '"':
			at = stringEnd(doc, at) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
}
