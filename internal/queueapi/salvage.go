package queueapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi/strictjson"
	"deadletter.dev/deadletter/internal/store"
)

// The marks of reports that could not be read as they should.
const (
	notObjectMark = "[not a JSON object] "
	cutReportMark = "…[report cut]"
)

// salvageReport makes a report of a body that is no JSON object, or is the start of one; rest is what is known of the
// part that was not kept, if there was one. A caller that may have sent a lease token never acts without it.
func salvageReport(body []byte, rest *tokenScan) (store.FailedLease, error) {
	if value := completeJSON(body); value != nil {
		failed, err := readReport(nil, value)
		mark(&failed.Report, cutReportMark)
		if err != nil || rest == nil {
			return failed, err
		}
		// The token may follow, or be cut itself.
		token, err := rest.token()
		if failed.Token != "" && !strings.HasPrefix(token, failed.Token) {
			return failed, nil
		}
		failed.Token = token
		return failed, err
	}
	failed := store.FailedLease{Report: message.Report{Reason: noReason}}
	scan := rest
	if scan == nil {
		scan = new(tokenScan)
	}
	scan.look(body, rest == nil)
	token, err := scan.token()
	if err != nil {
		return failed, err
	}
	failed.Token = token
	if text := salvagedText(body, token); text != "" {
		failed.Report.Reason = notObjectMark + text
	}
	return failed, nil
}

// salvagedText is the start of a body as text, without the lease token.
func salvagedText(body []byte, token string) string {
	text := string(withoutNUL(body[:min(len(body), 2*message.MaxReasonBytes)]))
	if token != "" {
		text = strings.ReplaceAll(text, token, "[lease_token]")
	}
	return strings.TrimSpace(text)
}

// withoutNUL makes text in UTF-16 or UTF-32 legible, as far as it is ASCII.
func withoutNUL(text []byte) []byte {
	if bytes.IndexByte(text, 0) < 0 {
		return text
	}
	return bytes.ReplaceAll(text, []byte{0}, nil)
}

// deepestJSON is the nesting beyond which a document is not completed; the decoder has about the same limit.
const deepestJSON = 10_000

// completeJSON closes what is left open in the start of a JSON object. It returns nil for everything else.
func completeJSON(start []byte) strictjson.Value {
	if len(start) == 0 || start[0] != '{' {
		return nil
	}
	closers, inString, ok := openJSON(start)
	if !ok {
		return nil
	}
	if inString {
		start = append(trimEscape(slices.Clip(start)), '"')
	} else {
		start = bytes.TrimRight(start, " \t\r\n,")
	}
	slices.Reverse(closers)
	for _, value := range []string{"", ":null", "null"} {
		candidate := slices.Concat(start, []byte(value), closers)
		if json.Valid(candidate) {
			return strictjson.Value(candidate)
		}
	}
	return nil
}

// openJSON finds what is open at the end of a document: the closing brackets that are missing, outermost first, and
// whether a string is.
func openJSON(doc []byte) (closers []byte, inString, ok bool) {
	escaped := false
	for _, c := range doc {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '{':
			closers = append(closers, '}')
		case c == '[':
			closers = append(closers, ']')
		case c == '}' || c == ']':
			if len(closers) == 0 {
				return nil, false, false
			}
			closers = closers[:len(closers)-1]
		}
		if len(closers) > deepestJSON {
			return nil, false, false
		}
	}
	return closers, inString, true
}

// trimEscape drops an escape sequence that a cut has left incomplete at the end of a string.
func trimEscape(text []byte) []byte {
	at := bytes.LastIndexByte(text, '\\')
	if at < 0 || len(text)-at >= escapeLen {
		return text
	}
	escapes := 0
	for text[at-escapes] == '\\' { // The document starts with '{'.
		escapes++
	}
	isEscape := escapes%2 == 1
	if isEscape && (at == len(text)-1 || text[at+1] == 'u') {
		return text[:at]
	}
	return text
}

// escapeLen is the length of the longest escape sequence.
const escapeLen = len(`\u0000`)
