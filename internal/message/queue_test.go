package message

import (
	"errors"
	"strings"
	"testing"
)

func TestParseQueueName(t *testing.T) {
	t.Parallel()
	accepted := map[string]string{
		"orders": "orders", "a/b": "a/b", "a b": "a b", "a+b": "a+b", "...": "...", "日本": "日本",
		"e\u0301": "é", strings.Repeat("a", 255): strings.Repeat("a", 255), "\u202eabc": "\u202eabc",
	}
	for raw, want := range accepted {
		if got, err := ParseQueueName(raw); err != nil || got != want {
			t.Errorf("%q: got %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		"", ".", "..", "a\x00", "a\n", "\x7f", "\u0085", "a\xff", strings.Repeat("a", 256), strings.Repeat("ü", 128),
	} {
		if _, err := ParseQueueName(raw); !errors.Is(err, ErrQueueName) {
			t.Errorf("%q was accepted: %v", raw, err)
		}
	}
}

func FuzzParseQueueName(f *testing.F) {
	f.Add("orders")
	f.Add("e\u0301\u0327")
	f.Fuzz(func(t *testing.T, raw string) {
		name, err := ParseQueueName(raw)
		if err != nil {
			return
		}
		if again, err := ParseQueueName(name); err != nil || again != name {
			t.Errorf("%q became %q and then %q, %v", raw, name, again, err)
		}
	})
}
