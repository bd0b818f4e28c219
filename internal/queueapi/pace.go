package queueapi

import (
	"io"
	"net/http"
	"time"
)

const (
	// paceBytes is the part of a body that must arrive within the time for one part: a sender that is slower, or that
	// stops, does not hold what it has sent for long.
	paceBytes = 256 << 10
	// longestBody is the most time for a whole body.
	longestBody = readTimeout
)

// paced reads a body that must keep coming: any that may become larger than freeBytes. The HTTP server itself lifts
// the deadline from the connection of a body that has ended.
type paced struct {
	from io.Reader
	conn *http.ResponseController
	part time.Duration
	// due is how many bytes are still to come in the time of this part; end is when the whole body must be there.
	due int
	end time.Time
}

func newPaced(w http.ResponseWriter, r *http.Request, part time.Duration) *paced {
	return &paced{from: r.Body, conn: http.NewResponseController(w), part: part, end: deadline(longestBody)}
}

// Read implements io.Reader. It fails with os.ErrDeadlineExceeded when the sender is too slow.
func (p *paced) Read(b []byte) (int, error) {
	if p.due <= 0 {
		p.due = paceBytes
		next := deadline(p.part)
		if next.After(p.end) {
			next = p.end
		}
		_ = p.conn.SetReadDeadline(next) // Not every connection has deadlines; the server's always do.
	}
	n, err := p.from.Read(b)
	p.due -= n
	return n, err //nolint:wrapcheck // a transparent wrapper
}

func deadline(after time.Duration) time.Time {
	return time.Now().Add(after) //nolint:forbidigo // connections know no other clock
}
