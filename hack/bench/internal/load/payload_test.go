package load

import (
	"bytes"
	"testing"
	"time"
	"unicode"
)

func TestPayloadTellsItsHead(t *testing.T) {
	t.Parallel()
	for _, want := range []head{
		{run: 1, number: 0, due: time.Unix(0, 1)},
		{run: 99999, number: 9_999_999_999, due: time.Unix(0, 1_900_000_000_123_456_789)},
	} {
		payload := want.payload()
		if len(payload) != PayloadSize {
			t.Errorf("%d bytes, want %d", len(payload), PayloadSize)
		}
		got, ok := readHead(payload)
		if !ok || got.run != want.run || got.number != want.number || !got.due.Equal(want.due) {
			t.Errorf("got %+v, %v, want %+v", got, ok, want)
		}
		if i := bytes.IndexFunc(payload, func(r rune) bool { return r == '"' || r == '\\' || !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("byte %d needs escaping in JSON: %q", i, payload[i])
		}
	}
}

func TestReadHeadRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	good := head{run: 1}.payload()
	for _, broken := range [][]byte{nil, good[:199], append(bytes.Clone(good), 'x'), bytes.Repeat([]byte("m"), 200)} {
		if _, ok := readHead(broken); ok {
			t.Errorf("%q was accepted", broken)
		}
	}
}
