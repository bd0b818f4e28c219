package queueapi

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
)

// maxFieldErrors bounds the errors reported for one request.
const maxFieldErrors = 20

// place is where in a document a value is. It renders to a path such as messages[3].headers[0].name only when an error
// needs it.
type place struct {
	parent *place
	name   string
	index  int
}

// in is the place of a member.
func (p *place) in(name string) place { return place{parent: p, name: name} }

// at is the place of an element.
func (p *place) at(index int) place { return place{parent: p, index: index} }

func (p *place) String() string {
	switch {
	case p == nil:
		return "body"
	case p.name == "":
		return p.parent.String() + "[" + strconv.Itoa(p.index) + "]"
	case p.parent == nil:
		return p.name
	default:
		return p.parent.String() + "." + p.name
	}
}

// input reads one strict document and collects everything that is wrong with it.
type input struct {
	errs []fieldError
	// tooLarge is set when an error is about the size of a payload, which has its own status.
	tooLarge bool
}

// err is the refusal that the errors so far amount to, or nil.
func (in *input) err() error {
	switch {
	case len(in.errs) == 0:
		return nil
	case in.tooLarge:
		first := slices.IndexFunc(in.errs, func(e fieldError) bool { return e.Code == codeTooLarge })
		in.errs[0], in.errs[first] = in.errs[first], in.errs[0]
		return problemTooLarge(in.errs...)
	default:
		return problemInvalid(in.errs...)
	}
}

func (in *input) refuse(p *place, code, format string, args ...any) {
	if len(in.errs) < maxFieldErrors {
		in.errs = append(in.errs, fieldError{Field: p.String(), Code: code, Message: fmt.Sprintf(format, args...)})
	}
}

// object walks an object. field is called for each member and reports whether it knows the name.
func (in *input) object(p *place, v strictjson.Value, field func(name string, p *place, v strictjson.Value) bool) {
	if v.Kind() != strictjson.Object {
		in.refuse(p, codeWrongType, "must be an object, not %s", article(v.Kind()))
		return
	}
	var seen []string
	for name, member := range v.Members() {
		here := p.in(name)
		if slices.Contains(seen, name) {
			in.refuse(&place{parent: p, name: showName(name)}, codeDuplicateField, "must be given only once")
			continue
		}
		if !field(name, &here, member) {
			in.refuse(&place{parent: p, name: showName(name)}, codeUnknownField, "is not a field of this request; remove it")
			continue // Not remembered: seen stays as short as the list of known fields.
		}
		seen = append(seen, name)
	}
}

// array checks that v is an array and that its length is in range; it stops counting beyond most.
func (in *input) array(p *place, v strictjson.Value, least, most int) bool {
	if v.Kind() != strictjson.Array {
		in.refuse(p, codeWrongType, "must be an array, not %s", article(v.Kind()))
		return false
	}
	count := 0
	for range v.Elements() {
		if count++; count > most {
			in.refuse(p, codeTooMany, "must have at most %d items", most)
			return false
		}
	}
	if count < least {
		in.refuse(p, codeOutOfRange, "must have at least %d item", least)
		return false
	}
	return true
}

func (in *input) integer(p *place, v strictjson.Value, least, most int64) int64 {
	n, ok := v.Int()
	switch {
	case !ok && v.Kind() == strictjson.Number:
		in.refuse(p, codeWrongType, "must be a whole number from %d to %d", least, most)
	case !ok:
		in.refuse(p, codeWrongType, "must be an integer, not %s", article(v.Kind()))
	case n < least || n > most:
		in.refuse(p, codeOutOfRange, "must be from %d to %d", least, most)
	default:
		return n
	}
	return 0
}

// require refuses an object that lacks a member.
func (in *input) require(p *place, name string, given bool) {
	if !given {
		here := p.in(name)
		in.refuse(&here, codeRequired, "must be given")
	}
}

// id reads the id of a message.
func (in *input) id(p *place, v strictjson.Value) int64 { return in.integer(p, v, 1, math.MaxInt64) }

// text reads a string that can be stored as text: Unicode without U+0000, at most limit bytes.
func (in *input) text(p *place, v strictjson.Value, limit int) string {
	if v.Kind() != strictjson.String {
		in.refuse(p, codeWrongType, "must be a string, not %s", article(v.Kind()))
		return ""
	}
	text, exact := v.Text()
	switch {
	case !exact:
		in.refuse(p, codeInvalidEncoding, "must not contain an unpaired surrogate")
	case strings.ContainsRune(text, 0):
		in.refuse(p, codeInvalidValue, "must not contain U+0000")
	case len(text) > limit:
		in.refuse(p, codeTooLong, "must be at most %d bytes of UTF-8", limit)
	default:
		return text
	}
	return ""
}

// filled reads a text that says nothing when it is empty; instead tells what to do then.
func (in *input) filled(p *place, v strictjson.Value, limit int, instead string) string {
	text := in.text(p, v, limit)
	if string(v) == `""` {
		in.refuse(p, codeInvalidValue, "must not be empty; %s", instead)
	}
	return text
}

// leaseToken reads a lease token. Whatever is not one is refused rather than ignored: the caller meant to be fenced.
func (in *input) leaseToken(p *place, v strictjson.Value) string {
	token, ok := leaseToken(v)
	if !ok {
		in.refuse(p, codeInvalidValue,
			"must be the lease_token of the claim's answer; leave it out to act on the current lease")
	}
	return token
}

// consumer reads who is asking.
func (in *input) consumer(p *place, v strictjson.Value) message.Consumer {
	var consumer message.Consumer
	in.object(p, v, func(name string, p *place, v strictjson.Value) bool {
		switch name {
		case "instance":
			consumer.Instance = in.text(p, v, message.MaxConsumerBytes)
		case "version":
			consumer.Version = in.text(p, v, message.MaxConsumerBytes)
		default:
			return false
		}
		return true
	})
	return message.NewConsumer(consumer)
}

// maxTokenBytes is far above the length of any lease token.
const maxTokenBytes = 128

// leaseToken returns the token in v; ok is false when v cannot be one: not a string, empty, or with bytes none has.
func leaseToken(v strictjson.Value) (token string, ok bool) {
	if v.Kind() != strictjson.String {
		return "", false
	}
	token, _ = v.Text()
	if token == "" || len(token) > maxTokenBytes {
		return "", false
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c >= utf8.RuneSelf-1 {
			return "", false
		}
	}
	return token, true
}

func article(kind strictjson.Kind) string {
	switch kind {
	case strictjson.Object, strictjson.Array:
		return "an " + string(kind)
	case strictjson.Null:
		return "null; leave the field out instead"
	case strictjson.String, strictjson.Number, strictjson.Bool:
		return "a " + string(kind)
	default:
		return string(kind)
	}
}

// showName makes a member name of the caller's safe to repeat in a path.
func showName(name string) string {
	return message.Clean(name, maxQuoted)
}
