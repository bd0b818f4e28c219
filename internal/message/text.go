package message

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const cutMark = "…[cut]"

// Clean makes text storable and bounded: invalid UTF-8 and control characters other than newline and tab become visible
// escapes (\xNN), and what exceeds limit bytes is cut at a character boundary and marked. It never fails, so that
// nothing a worker sends can keep its failure from being recorded.
func Clean(text string, limit int) string {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		piece := text[:size]
		if invalid := r == utf8.RuneError && size == 1; invalid || isUnsafeControl(r) {
			piece = fmt.Sprintf(`\x%02x`, text[0])
		}
		if out.Len()+len(piece) > limit {
			return fitMark(out.String(), limit)
		}
		out.WriteString(piece)
		text = text[size:]
	}
	return out.String()
}

// isUnsafeControl reports the C0 control characters that Postgres text or a terminal would choke on.
func isUnsafeControl(r rune) bool {
	return (r < ' ' && r != '\n' && r != '\t') || r == 0x7f
}

// fitMark appends the cut mark, dropping characters from the end until both fit.
func fitMark(text string, limit int) string {
	for len(text)+len(cutMark) > limit && text != "" {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text + cutMark
}

// lastLines keeps the last n lines of text and marks the cut.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) <= n {
		return strings.Join(lines, "\n")
	}
	return cutMark + "\n" + strings.Join(lines[len(lines)-n:], "\n")
}
