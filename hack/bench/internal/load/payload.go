package load

import (
	"bytes"
	"strconv"
	"time"
)

// PayloadSize is the size of every message, in bytes.
const PayloadSize = 200

// A payload begins with a mark, the run, the message's number in it and the time it was due, each of fixed width.
const (
	mark       = 'm'
	runSize    = 5
	numberSize = 10
	timeSize   = 19
	numberAt   = 1 + runSize
	timeAt     = numberAt + numberSize
	headSize   = timeAt + timeSize
)

// filler is plain text that needs no escaping in JSON or SQL, so that no system pays more than another for it.
var filler = bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog. "), 5)

// head is what a payload tells.
type head struct {
	run, number int64
	due         time.Time
}

func (h head) payload() []byte {
	payload := make([]byte, PayloadSize)
	payload[0] = mark
	digits(payload[1:numberAt], h.run)
	digits(payload[numberAt:timeAt], h.number)
	digits(payload[timeAt:headSize], h.due.UnixNano())
	copy(payload[headSize:], filler)
	return payload
}

// readHead reverses payload; it reports false for what is no payload.
func readHead(payload []byte) (head, bool) {
	if len(payload) != PayloadSize || payload[0] != mark {
		return head{}, false
	}
	var fields [3]int64
	for i, field := range [][]byte{payload[1:numberAt], payload[numberAt:timeAt], payload[timeAt:headSize]} {
		value, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return head{}, false
		}
		fields[i] = value
	}
	return head{run: fields[0], number: fields[1], due: time.Unix(0, fields[2])}, true
}

// Backlog makes payloads that no run takes for its own.
func Backlog(count int) [][]byte {
	payloads := make([][]byte, count)
	for i := range payloads {
		payloads[i] = head{number: int64(i), due: time.Now()}.payload()
	}
	return payloads
}

// digits writes a number right-aligned with leading zeros.
func digits(field []byte, number int64) {
	for i := len(field) - 1; i >= 0; i-- {
		field[i] = byte('0' + number%10)
		number /= 10
	}
}
