package load

import (
	"bytes"
	"strconv"
	"time"
)

// PayloadSize is the size of every message, in bytes.
const PayloadSize = 200

// A payload begins with a mark, the message's number and the time it was due, each of fixed width.
const (
	mark       = 'm'
	numberSize = 12
	timeSize   = 19
	headSize   = 1 + numberSize + timeSize
)

// filler is plain text that needs no escaping in JSON or SQL, so that no system pays more than another for it.
var filler = bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog. "), 5)

// newPayload makes the payload of the message with that number.
func newPayload(number int64, due time.Time) []byte {
	payload := make([]byte, PayloadSize)
	payload[0] = mark
	digits(payload[1:1+numberSize], number)
	digits(payload[1+numberSize:headSize], due.UnixNano())
	copy(payload[headSize:], filler)
	return payload
}

// readPayload reverses newPayload; it reports false for a message of someone else's.
func readPayload(payload []byte) (number int64, due time.Time, ok bool) {
	if len(payload) != PayloadSize || payload[0] != mark {
		return 0, time.Time{}, false
	}
	number, err := strconv.ParseInt(string(payload[1:1+numberSize]), 10, 64)
	if err != nil {
		return 0, time.Time{}, false
	}
	nanos, err := strconv.ParseInt(string(payload[1+numberSize:headSize]), 10, 64)
	if err != nil {
		return 0, time.Time{}, false
	}
	return number, time.Unix(0, nanos), true
}

// digits writes a number right-aligned with leading zeros.
func digits(field []byte, number int64) {
	for i := len(field) - 1; i >= 0; i-- {
		field[i] = byte('0' + number%10)
		number /= 10
	}
}
