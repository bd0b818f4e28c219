package queueapi

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// reflected is what encoding/json writes.
func reflected(t rapid.TB, value any) string {
	t.Helper()
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(buffer.String(), "\n")
}

func wantText(t rapid.TB, got []byte, want string) {
	t.Helper()
	if string(got) != want {
		t.Fatalf("wrote %q\nwant  %q", got, want)
	}
}

// TestEveryByteIsEscapedAtEveryPlace has each byte, and each rune that matters, at each place of two machine words.
func TestEveryByteIsEscapedAtEveryPlace(t *testing.T) {
	t.Parallel()
	odd := []string{
		"\u007f", "\u0080", "\u2027", "\u2028", "\u2029", "\u202a", "\ufffd", "\U0010ffff", "\xed\xa0\x80", "\xe2\x80",
	}
	for c := range math.MaxUint8 + 1 {
		odd = append(odd, string([]byte{byte(c)}))
	}
	for _, text := range odd {
		for before := range 16 {
			for _, after := range []string{"", "z", strings.Repeat("z", 16)} {
				whole := strings.Repeat("a", before) + text + after
				want := reflected(t, whole)
				wantText(t, appendText(nil, whole), want)
				wantText(t, appendText(nil, []byte(whole)), want)
			}
		}
	}
}

func TestTextIsWrittenAsEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := texts().Draw(t, "text")
		wantText(t, appendText([]byte("x"), text), "x"+reflected(t, text))
	})
}

func TestAnswersAreWrittenAsEncodingJSONDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(anyMessages(), 0, 3).Draw(t, "messages")
		plural, next := rapid.Bool().Draw(t, "plural"), texts().Draw(t, "next")
		wantText(t, claimAnswer{messages, plural}.appendJSON(nil), reflected(t, newClaimJSON(messages, plural)))
		wantText(t, enqueuedAnswer(messages).appendJSON(nil), reflected(t, messagesJSON{viewsJSON(messages, newMessageJSON)}))
		wantText(t, pageAnswer{messages, next}.appendJSON(nil), reflected(t, newPageJSON(messages, next)))
		if len(messages) > 0 {
			m := &messages[0]
			wantText(t, messageAnswer{m}.appendJSON([]byte("x")), "x"+reflected(t, newMessageJSON(m)))
		}
		results := make([]result, 0, len(messages))
		for i := range messages {
			settled := store.Settled{Message: messages[i]}
			if messages[i].Status == message.Dead {
				settled.Err = rapid.SampledFrom([]error{
					store.ErrNotFound, problemInvalid(fieldError{Field: next, Code: "<&>", Message: next}),
				}).Draw(t, "problem")
			}
			results = append(results, newResult(messages[i].ID, &settled))
		}
		wantText(t, resultsAnswer(results).appendJSON(nil), reflected(t, newResultsJSON(results)))
	})
}

func BenchmarkText(b *testing.B) {
	for name, text := range map[string]string{
		"ascii": strings.Repeat("0123456789abcdef", 64), "json": strings.Repeat(`{"a":"b"},`, 102), "chinese": strings.Repeat("世", 341),
	} {
		b.Run(name, func(b *testing.B) {
			into := make([]byte, 0, utf8.UTFMax*len(text))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				into = appendText(into[:0], text)
			}
		})
	}
}
