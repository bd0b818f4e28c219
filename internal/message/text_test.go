package message

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"plain":            {"a\tb\nc ü", 100, "a\tb\nc ü"},
		"NUL":              {"a\x00b", 100, `a\x00b`},
		"invalid UTF-8":    {"a\xff\xc3", 100, `a\xff\xc3`},
		"delete":           {"a\x7fb", 100, `a\x7fb`},
		"escape sequence":  {"\x1b[31m", 100, `\x1b[31m`},
		"exactly fits":     {"abcdefghij", 10, "abcdefghij"},
		"one too many":     {strings.Repeat("a", 21), 20, strings.Repeat("a", 12) + cutMark},
		"cut at character": {strings.Repeat("ü", 15), 21, strings.Repeat("ü", 6) + cutMark},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Clean(c.text, c.limit); got != c.want {
				t.Fatalf("cleaned to %q, want %q", got, c.want)
			}
		})
	}
}

// Whatever a worker sends, what is kept is valid, bounded, without NUL, and has a fingerprint.
func FuzzNewFailure(f *testing.F) {
	f.Add("order 17 not found", "EXTERNAL", "at main.go:1\nat main.go:2", "IOError")
	f.Add("\x00\xff", " ", strings.Repeat("x\n", 50), "\u202e")
	f.Fuzz(func(t *testing.T, reason, category, stack, class string) {
		got := NewFailure(Report{
			Reason: reason, Category: category, StackTrace: stack, ErrorClass: class,
			Consumer: Consumer{Instance: class, Version: reason},
		}, Consumer{}, time.Time{})
		for name, field := range map[string]struct {
			text  string
			limit int
		}{
			"reason": {got.Reason, MaxReasonBytes}, "category": {string(got.Category), MaxCategoryBytes},
			"stack": {got.StackTrace, MaxStackBytes}, "class": {got.ErrorClass, MaxErrorClassBytes},
			"instance": {got.Consumer.Instance, MaxConsumerBytes}, "version": {got.Consumer.Version, MaxConsumerBytes},
		} {
			if len(field.text) > field.limit || !utf8.ValidString(field.text) || strings.ContainsRune(field.text, 0) {
				t.Errorf("%s is not storable: %d bytes", name, len(field.text))
			}
		}
		if got.Category == "" || len(got.Fingerprint) != 16 {
			t.Errorf("category %q, fingerprint %q", got.Category, got.Fingerprint)
		}
	})
}

func TestStackKeepsTheLastFrames(t *testing.T) {
	t.Parallel()
	var frames []string
	for i := range 30 {
		frames = append(frames, strings.Repeat("f", i+1))
	}
	got := NewFailure(Report{StackTrace: strings.Join(frames, "\n") + "\n"}, Consumer{}, time.Time{}).StackTrace
	want := cutMark + "\n" + strings.Join(frames[10:], "\n")
	if got != want {
		t.Fatalf("stack is %q", got)
	}
}
