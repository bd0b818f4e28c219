package load

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"deadletter.dev/deadletter/hack/bench/internal/measure"
)

// ledgerSize bounds the messages of one run.
const ledgerSize = 1 << 26

// Ledger knows every message of a run: which were sent and which have come to their end.
type Ledger struct {
	run int64
	// backlog tells that messages of others, from before, end in place of the run's own.
	backlog   bool
	next      atomic.Int64
	sent      atomic.Int64
	delivered atomic.Int64
	acked     atomic.Int64
	repeats   atomic.Int64
	strangers atomic.Int64
	done      []atomic.Uint64
	// ToDelivery is the time from when a message was due to be sent until a worker had it, ToAck until it was finished.
	ToDelivery, ToAck measure.Histogram
}

// runs numbers the ledgers, so that the messages of one are never taken for those of another. 0 is nobody's.
var runs atomic.Int64

// NewLedger returns one without messages.
func NewLedger() *Ledger {
	return &Ledger{run: runs.Add(1), done: make([]atomic.Uint64, ledgerSize/64)}
}

// compose makes payloads for new messages that are due now.
func (l *Ledger) compose(into [][]byte, due time.Time) {
	last := l.next.Add(int64(len(into)))
	for i := range into {
		into[i] = head{run: l.run, number: last - int64(len(into)-i), due: due}.payload()
	}
}

// Sent counts messages that the system has accepted.
func (l *Ledger) Sent(count int) { l.sent.Add(int64(count)) }

// Delivered records that a worker has the message.
func (l *Ledger) Delivered(payload []byte) {
	l.delivered.Add(1)
	if head, ok := readHead(payload); ok && head.run == l.run {
		l.ToDelivery.Record(time.Since(head.due))
	}
}

// Acked records that the message is finished.
func (l *Ledger) Acked(payload []byte) { l.end(payload) }

// end counts a message as finished and reports whether it had not been before.
func (l *Ledger) end(payload []byte) bool {
	head, ok := readHead(payload)
	switch ours := ok && head.run == l.run && head.number < l.next.Load(); {
	case !ours && l.backlog:
	case !ours && ok && head.run != 0:
		// Finished in an earlier run of the same system, but its broker had not heard of that yet.
		l.repeats.Add(1)
		return false
	case !ours:
		l.strangers.Add(1)
	case !l.mark(head.number):
		l.repeats.Add(1)
		return false
	default:
		l.ToAck.Record(time.Since(head.due))
	}
	l.acked.Add(1)
	return true
}

// mark reports whether the message had not ended before.
func (l *Ledger) mark(number int64) bool {
	bit := uint64(1) << (number % 64)
	return l.done[number/64].Or(bit)&bit == 0
}

// Count is how many messages have ended.
func (l *Ledger) Count() int64 { return l.acked.Load() }

// open is how many messages were accepted and have not ended.
func (l *Ledger) open() int64 { return l.sent.Load() - l.acked.Load() }

// full tells that no more messages can be told apart.
func (l *Ledger) full() bool { return l.next.Load() > ledgerSize-1<<20 }

// Repeats is how many messages were finished more than once, as at-least-once delivery allows.
func (l *Ledger) Repeats() int64 { return l.repeats.Load() }

// Added is how many more messages were accepted than ended.
func (l *Ledger) Added() int64 { return l.open() }

// Check reports an error unless exactly as many different messages ended as were accepted, and at least one. With a
// backlog, which messages end is not known.
func (l *Ledger) Check() error {
	sent, acked := l.sent.Load(), l.acked.Load()
	switch strangers := l.strangers.Load(); {
	case acked == 0:
		return errors.New("not one message was acknowledged")
	case l.backlog:
		return nil
	case sent != acked:
		return fmt.Errorf("%d messages were accepted, %d acknowledged", sent, acked)
	case strangers > 0:
		return fmt.Errorf("%d messages were acknowledged that nobody sent", strangers)
	}
	return nil
}
