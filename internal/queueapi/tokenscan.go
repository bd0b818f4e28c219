package queueapi

import (
	"fmt"
	"regexp"
	"slices"
)

// tokenScan looks for a lease token in text that is not the JSON that it should be. It is an io.Writer for text that is
// not kept.
type tokenScan struct {
	tokens []string
	// unreadable is set by a lease_token without a legible value, unended when not all of the text was seen.
	unreadable, unended bool
	// window is the end of what was written, in which a token may have begun.
	window []byte
}

// tokenField is lease_token as a field of JSON, of JSON within a string, or of a form: its quote or its separator tells
// it from the words in an error message. Groups: the quote, the separator, the value.
var tokenField = regexp.MustCompile(`lease_token(\\?["'])?\s{0,8}([:=])?\s{0,8}(?:\\?["'])?([0-9A-Za-z-]{0,128})`)

// longestField is more than tokenField matches, in whatever encoding.
const longestField = 1 << 10

// look takes the tokens out of text. Unless it is the last, a field at its very end is left to the text that follows.
func (s *tokenScan) look(text []byte, last bool) {
	text = withoutNUL(text)
	for _, at := range tokenField.FindAllSubmatchIndex(text, -1) {
		isField := at[2] >= 0 || at[4] >= 0
		if !isField || (at[1] == len(text) && !last) {
			continue
		}
		value := string(text[at[6]:at[7]])
		switch {
		case at[4] < 0 || value == "":
			s.unreadable = true
		case !slices.Contains(s.tokens, value):
			s.tokens = append(s.tokens, value)
		}
	}
}

// Write implements io.Writer.
func (s *tokenScan) Write(text []byte) (int, error) {
	s.window = append(s.window, text...)
	s.look(s.window, false)
	s.window = slices.Delete(s.window, 0, max(len(s.window)-longestField, 0))
	return len(text), nil
}

// end says that no more is written; all tells whether that was the end of the text.
func (s *tokenScan) end(all bool) {
	s.look(s.window, true)
	s.window, s.unended = nil, !all
}

// token is the one token that was found, or "" when there is none. It is an error when that is not certain.
func (s *tokenScan) token() (string, error) {
	switch {
	case s.unreadable || len(s.tokens) > 1:
		return "", problemInvalid(fieldError{
			Field: "lease_token", Code: codeInvalidValue,
			Message: "must be legible: the body is no JSON object, and which lease_token it holds is not certain",
		})
	case len(s.tokens) == 1:
		return s.tokens[0], nil
	case s.unended:
		return "", problemTooLarge(fieldError{
			Field: "body", Code: codeTooLarge,
			Message: fmt.Sprintf("must be at most %d bytes in all, or have a lease_token before", maxSeenBytes),
		})
	default:
		return "", nil
	}
}
