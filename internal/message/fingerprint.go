package message

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// What varies between failures of one cause, most specific first: each pattern is replaced by its placeholder before
// hashing. Changing any of them regroups failures that are recorded later.
var variable = []struct {
	pattern     *regexp.Regexp
	placeholder string
}{
	{regexp.MustCompile(`"[^"\n]*"|'[^'\n]*'|` + "`[^`\n]*`"), "<quoted>"},
	{regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s,;)\]}]+`), "<url>"},
	{regexp.MustCompile(`(?i)\b[\w.+-]+@[\w-]+(\.[\w-]+)+\b`), "<email>"},
	{regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?`), "<time>"},
	{regexp.MustCompile(`\[[0-9a-fA-F:]+\](:\d+)?|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b`), "<address>"},
	{regexp.MustCompile(`(?i)\b[a-z0-9-]+(\.[a-z0-9-]+)+:\d+\b`), "<address>"},
	{regexp.MustCompile(`(?i)\b0x[0-9a-f]+\b`), "<hex>"},
	{regexp.MustCompile(`(?i)\b[a-z_-]*\d[0-9a-z_-]*\b`), "<id>"},
}

var spaces = regexp.MustCompile(`\s+`)

// Normalise removes from a failure reason what differs between failures of one cause: quoted values, URLs, addresses,
// ids, times and numbers.
func Normalise(reason string) string {
	for _, v := range variable {
		reason = v.pattern.ReplaceAllString(reason, v.placeholder)
	}
	return strings.TrimSpace(spaces.ReplaceAllString(strings.ToLower(reason), " "))
}

// Fingerprint is the group key of a failure: 16 hexadecimal digits of the SHA-256 of its category and normalised
// reason.
func Fingerprint(category Category, reason string) string {
	sum := sha256.Sum256([]byte(string(category) + "\x00" + Normalise(reason)))
	return hex.EncodeToString(sum[:8])
}
