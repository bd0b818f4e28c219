package queueapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// parseQuery reads the parameters of the URL. Unknown ones are refused: a misspelt filter that is ignored selects
// everything.
func (c *call) parseQuery(known []string) error {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return problemInvalid(fieldError{
			Field: "query", Code: codeMalformedQuery, Message: "must be name=value pairs joined by '&', percent-encoded",
		})
	}
	in := params{values: query}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			in.refuse(showName(name), codeUnknownField, "is not a parameter of this request; remove it")
		}
	}
	c.query = query
	return in.err()
}

// params reads parameters of one URL and collects everything that is wrong with them.
type params struct {
	values url.Values
	errs   []fieldError
}

func (q *params) err() error {
	if len(q.errs) == 0 {
		return nil
	}
	return problemInvalid(q.errs...)
}

func (q *params) refuse(name, code, format string, args ...any) {
	if len(q.errs) < maxFieldErrors {
		q.errs = append(q.errs, fieldError{Field: name, Code: code, Message: fmt.Sprintf(format, args...)})
	}
}

// single returns the value of a parameter that may be given once; ok is false when it is absent or refused.
func (q *params) single(name string) (value string, ok bool) {
	switch values := q.values[name]; len(values) {
	case 0:
		return "", false
	case 1:
		return values[0], true
	default:
		q.refuse(name, codeDuplicateField, "must be given only once")
		return "", false
	}
}

// integer reads a decimal integer, or returns fallback when it is absent.
func (q *params) integer(name string, least, most, fallback int) int {
	raw, ok := q.single(name)
	if !ok {
		return fallback
	}
	n, err := strconv.Atoi(raw)
	switch {
	case err != nil || strconv.Itoa(n) != raw:
		q.refuse(name, codeWrongType, "must be an integer from %d to %d", least, most)
	case n < least || n > most:
		q.refuse(name, codeOutOfRange, "must be from %d to %d", least, most)
	default:
		return n
	}
	return fallback
}

// maxParamBytes bounds a text parameter.
const maxParamBytes = 1024

// texts reads a parameter that may be repeated up to most times.
func (q *params) texts(name string, most int) []string {
	values := q.values[name]
	if len(values) > most {
		q.refuse(name, codeTooMany, "must be given at most %d times", most)
		return nil
	}
	for _, value := range values {
		switch {
		case value == "":
			q.refuse(name, codeInvalidValue, "must not be empty; leave it out to select everything")
		case len(value) > maxParamBytes:
			q.refuse(name, codeTooLong, "must be at most %d bytes", maxParamBytes)
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			q.refuse(name, codeInvalidEncoding, "must be UTF-8 without U+0000")
		}
	}
	return values
}

// text reads a text parameter that may be given once, or returns "" when it is absent.
func (q *params) text(name string) string {
	if len(q.values[name]) > 1 {
		q.refuse(name, codeDuplicateField, "must be given only once")
		return ""
	}
	if values := q.texts(name, 1); len(values) == 1 {
		return values[0]
	}
	return ""
}

// The years that both RFC 3339 and the database can hold.
const (
	firstYear = 1
	lastYear  = 9999
)

// instant reads an RFC 3339 time, or returns the zero time when it is absent.
func (q *params) instant(name string) time.Time {
	raw, ok := q.single(name)
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, raw)
	if err != nil || at.IsZero() || at.UTC().Year() < firstYear || at.UTC().Year() > lastYear {
		q.refuse(name, codeInvalidValue,
			"must be an RFC 3339 time such as 2026-01-31T08:00:00Z ('+' is written %%2B in a URL)")
		return time.Time{}
	}
	return at.UTC()
}

// limit reads the page size.
func (q *params) limit() int { return q.integer("limit", 1, maxPage, defaultPage) }

const (
	maxPage     = 100
	defaultPage = 20
)
