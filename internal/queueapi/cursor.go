package queueapi

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// Cursors are opaque to callers: a kind byte and a position in the list's own order, in base64url. They hold positions,
// not snapshots, so a page walk neither skips nor repeats what stays in the list while others come and go.
const (
	cursorMessages    = 'm'
	cursorDeadLetters = 'd'
	cursorQueues      = 'q'
	cursorReplays     = 'r'
	cursorReplayed    = 'i'
)

const wordLen = 8

func encodeCursor(kind byte, position []byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{kind}, position...))
}

// cursor returns the position in the cursor parameter; ok is false when it is absent, or not of the kind and refused.
func (q *params) cursor(kind byte, valid func(position []byte) bool) (position []byte, ok bool) {
	raw, ok := q.single("cursor")
	if !ok {
		return nil, false
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(raw)
	if err != nil || len(decoded) == 0 || decoded[0] != kind || !valid(decoded[1:]) {
		q.refuse("cursor", codeInvalidCursor, "must be the next_cursor of the page before; leave it out to start again")
		return nil, false
	}
	return decoded[1:], true
}

func messageCursor(afterID int64) string { return numberCursor(cursorMessages, afterID) }

func (q *params) messageCursor() int64 { return q.numberCursor(cursorMessages) }

// numberCursor is a cursor whose position is one positive number.
func numberCursor(kind byte, n int64) string {
	return encodeCursor(kind, binary.BigEndian.AppendUint64(nil, uint64(n))) //nolint:gosec // kept bit for bit
}

func (q *params) numberCursor(kind byte) int64 {
	position, ok := q.cursor(kind, func(p []byte) bool { return len(p) == wordLen && word(p) > 0 })
	if !ok {
		return 0
	}
	return word(position)
}

func deadLetterCursor(at store.DeadLetterCursor) string {
	position := binary.BigEndian.AppendUint64(nil, uint64(at.DiedAt.UnixMicro()))
	position = binary.BigEndian.AppendUint64(position, uint64(at.ID)) //nolint:gosec // as above
	return encodeCursor(cursorDeadLetters, position)
}

func (q *params) deadLetterCursor() store.DeadLetterCursor {
	position, ok := q.cursor(cursorDeadLetters, func(p []byte) bool {
		if len(p) != 2*wordLen || word(p[wordLen:]) <= 0 {
			return false
		}
		year := time.UnixMicro(word(p)).UTC().Year()
		return year >= firstYear && year <= lastYear
	})
	if !ok {
		return store.DeadLetterCursor{}
	}
	return store.DeadLetterCursor{DiedAt: time.UnixMicro(word(position)).UTC(), ID: word(position[wordLen:])}
}

func queueCursor(afterName string) string { return encodeCursor(cursorQueues, []byte(afterName)) }

func (q *params) queueCursor() string {
	position, _ := q.cursor(cursorQueues, func(p []byte) bool {
		name, err := message.ParseQueueName(string(p))
		return err == nil && name == string(p)
	})
	return string(position)
}

func word(p []byte) int64 { return int64(binary.BigEndian.Uint64(p)) } //nolint:gosec // kept bit for bit
