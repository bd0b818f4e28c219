package client

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What the API keeps of a failure, in bytes. More is not sent: an error may hold a whole web page.
const (
	maxReasonBytes     = 4096
	maxCategoryBytes   = 64
	maxErrorClassBytes = 256
	maxStackBytes      = 16 << 10
	maxStackLines      = 20
)

const cutMark = "…[cut]"

// legible makes a text one that the API keeps as it is: what is no UTF-8, and what a terminal would choke on, is
// escaped, and what is too long is cut with a mark. JSON alone would lose bytes that are no UTF-8.
func legible(text string, limit int) string {
	var out strings.Builder
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		piece := text[at : at+size]
		if r == utf8.RuneError && size == 1 || r < ' ' && r != '\n' && r != '\t' || r == '\x7f' {
			piece = fmt.Sprintf(`\x%02x`, text[at])
		}
		if out.Len()+len(piece) > limit {
			return cut(out.String(), limit)
		}
		out.WriteString(piece)
		at += size
	}
	return out.String()
}

// cut ends a text with the mark, within the limit and not in the middle of a character.
func cut(text string, limit int) string {
	end := min(len(text), limit-len(cutMark))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cutMark
}
