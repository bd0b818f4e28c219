package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorded is a pause that takes no time.
func recorded(waits *[]time.Duration) func(context.Context, time.Duration) error {
	return func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
}

func problemOf(status int, kind string) try {
	return try{problem: &Error{Status: status, Type: problemBase + kind}}
}

func TestWhatIsRepeated(t *testing.T) {
	t.Parallel()
	refusedConnection := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, c := range map[string]struct {
		try try
		// repeated says for which kinds of requests: read-only, once, repeatable.
		repeated       [3]bool
		changedNothing bool
	}{
		"no such host":           {try{err: &net.DNSError{}}, [3]bool{true, true, true}, true},
		"connection refused":     {try{err: refusedConnection}, [3]bool{true, true, true}, true},
		"connection broke":       {try{err: io.ErrUnexpectedEOF}, [3]bool{true, false, true}, false},
		"reset":                  {try{err: &net.OpError{Op: "read"}}, [3]bool{true, false, true}, false},
		"too slow":               {try{err: context.DeadlineExceeded}, [3]bool{true, false, true}, false},
		"no token":               {try{err: io.EOF, phase: unsent}, [3]bool{}, true},
		"illegible":              {try{err: io.EOF, phase: answered}, [3]bool{}, false},
		"overloaded":             {problemOf(503, "overloaded"), [3]bool{true, true, true}, true},
		"unavailable":            {problemOf(503, "unavailable"), [3]bool{true, false, true}, false},
		"internal":               {problemOf(500, "internal"), [3]bool{true, false, true}, false},
		"gateway":                {try{problem: &Error{Status: 502}}, [3]bool{true, false, true}, false},
		"gateway's timeout":      {try{problem: &Error{Status: 504}}, [3]bool{true, false, true}, false},
		"not implemented":        {try{problem: &Error{Status: 501}}, [3]bool{}, false},
		"queue full":             {problemOf(429, "queue-full"), [3]bool{true, true, true}, true},
		"too slow for it":        {problemOf(408, "request-timeout"), [3]bool{true, true, true}, true},
		"invalid":                {problemOf(422, "invalid-request"), [3]bool{}, true},
		"stale lease":            {problemOf(409, "stale-lease"), [3]bool{}, true},
		"not found":              {problemOf(404, "not-found"), [3]bool{}, true},
		"forbidden":              {problemOf(403, "forbidden"), [3]bool{}, true},
		"redirected":             {try{problem: &Error{Status: 307}}, [3]bool{}, true},
		"wrapped refusal of TCP": {try{err: fmt.Errorf("proxy: %w", refusedConnection)}, [3]bool{true, true, true}, true},
	} {
		got := [3]bool{c.try.repeat(readOnly), c.try.repeat(once), c.try.repeat(repeatable)}
		if got != c.repeated || c.try.changedNothing() != c.changedNothing {
			t.Errorf("%s: repeated %t, changed nothing %t", name, got, c.try.changedNothing())
		}
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	asked := func(d time.Duration) try { return try{problem: &Error{Status: 503, RetryAfter: d}} }
	for name, c := range map[string]struct {
		try    try
		number int
		random float64
		want   time.Duration
		worth  bool
	}{
		"first":               {try{}, 1, 0, 100 * ms, true},
		"first, other dice":   {try{}, 1, 1, 50 * ms, true},
		"second":              {try{}, 2, 0, 200 * ms, true},
		"eighth":              {try{}, 8, 0, 10 * time.Second, true},
		"hundredth":           {try{}, 100, 0, 10 * time.Second, true},
		"asked":               {asked(3 * time.Second), 1, 0, 3100 * ms, true},
		"asked for too much":  {asked(time.Hour), 1, 0, time.Hour + 100*ms, false},
		"asked for a minute":  {asked(time.Minute), 1, 1, time.Minute + 50*ms, true},
		"asked for no wait":   {asked(0), 3, 0.5, 300 * ms, true},
		"asked for a bit too": {asked(time.Minute + 1), 1, 0, time.Minute + 1 + 100*ms, false},
	} {
		if got, worth := c.try.wait(c.number, c.random); got != c.want || worth != c.worth {
			t.Errorf("%s: %s, %t", name, got, worth)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "1.5": 0, "soon": 0, "99999999999999999999": 0,
		"9223372036854775807":           time.Duration(maxSeconds) * time.Second,
		"Sat, 31 Jan 2026 08:00:30 GMT": 30 * time.Second,
		"Sat, 31 Jan 2026 07:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestSecondsAreRoundedUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, -1: 0, -time.Second: -1, 90 * 24 * time.Hour: 7776000,
	} {
		if got := seconds(d); got != want {
			t.Errorf("%s: %d, want %d", d, got, want)
		}
	}
}

// reply is an answer, or the error of a connection that broke.
type reply struct {
	status int
	body   string
	err    error
}

func answers(status int, body string) reply { return reply{status: status, body: body} }

func breaks(err error) reply { return reply{err: err} }

func (r reply) response() (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	return &http.Response{
		StatusCode: r.status, Body: io.NopCloser(strings.NewReader(r.body)), Header: http.Header{},
	}, nil
}

// script answers requests from a list, over and over the last one.
type script struct {
	replies []reply
	calls   int
	bodies  []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	s.bodies = append(s.bodies, r.Header.Get("Idempotency-Key")+string(body))
	next := s.replies[min(s.calls, len(s.replies)-1)]
	s.calls++
	return next.response()
}

func scripted(t *testing.T, waits *[]time.Duration, all ...reply) (*Client, *script) {
	t.Helper()
	s := &script{replies: all}
	c, err := New("http://api.test/base/", WithHTTPClient(&http.Client{Transport: s}))
	if err != nil {
		t.Fatal(err)
	}
	c.pause, c.random = recorded(waits), func() float64 { return 0 }
	return c, s
}

func TestRetriesSendTheSame(t *testing.T) {
	t.Parallel()
	var waits []time.Duration
	c, s := scripted(t, &waits, breaks(io.EOF), answers(500, `{}`), answers(503, `<html>`), answers(201, `{"id": 7}`))
	m, err := c.Enqueue(t.Context(), "q", text("x"))
	if err != nil || m.ID != 7 {
		t.Fatalf("%v, %v", m, err)
	}
	if len(slices.Compact(s.bodies)) != 1 || len(s.bodies[0]) < 26 {
		t.Errorf("sent %q", s.bodies)
	}
	want := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsSayWhetherTheOutcomeIsKnown(t *testing.T) {
	t.Parallel()
	enqueue := func(c *Client) error { _, err := c.Enqueue(t.Context(), "q", text("x")); return err }
	claim := func(c *Client) error { _, err := c.Claim(t.Context(), "q", ClaimOptions{}); return err }
	get := func(c *Client) error { _, err := c.Get(t.Context(), "q", 1); return err }
	dial := breaks(&net.OpError{Op: "dial", Err: errors.New("refused")})
	full := answers(429, `{"type": "https://deadletter.dev/problems/queue-full", "status": 429}`)
	closed := answers(409, `{"type": "https://deadletter.dev/problems/queue-closed", "status": 409}`)
	for name, c := range map[string]struct {
		call    func(*Client) error
		answers []reply
		calls   int
		unknown bool
	}{
		"enqueue, nobody there":            {enqueue, []reply{dial}, 5, false},
		"enqueue, always broken":           {enqueue, []reply{breaks(io.EOF)}, 5, true},
		"enqueue, broken, then full":       {enqueue, []reply{breaks(io.EOF), full}, 5, true},
		"enqueue, broken, then closed":     {enqueue, []reply{breaks(io.EOF), closed}, 2, true},
		"enqueue, full":                    {enqueue, []reply{full}, 5, false},
		"enqueue, answer is nonsense":      {enqueue, []reply{answers(200, "<html>")}, 1, true},
		"enqueue, redirected":              {enqueue, []reply{answers(301, "")}, 1, false},
		"claim, broken":                    {claim, []reply{breaks(io.EOF)}, 1, true},
		"claim, nobody there, then broken": {claim, []reply{dial, breaks(io.EOF)}, 2, true},
		"get, broken":                      {get, []reply{breaks(io.EOF)}, 5, false},
		"get, answer is nonsense":          {get, []reply{answers(200, "[]")}, 1, false},
	} {
		var waits []time.Duration
		client, s := scripted(t, &waits, c.answers...)
		err := c.call(client)
		if err == nil || errors.Is(err, ErrUnknownOutcome) != c.unknown || s.calls != c.calls {
			t.Errorf("%s: %d calls, %v", name, s.calls, err)
		}
	}
}

func TestNoTryBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	var waits []time.Duration
	c, s := scripted(t, &waits, breaks(io.EOF))
	now := time.Now()
	c.now = func() time.Time { return now }
	ctx, cancel := context.WithDeadline(t.Context(), now.Add(150*time.Millisecond))
	defer cancel()
	if _, err := c.Get(ctx, "q", 1); !errors.Is(err, io.EOF) {
		t.Errorf("the error is %v", err)
	}
	if s.calls != 2 || len(waits) != 1 {
		t.Errorf("%d calls, waits %s", s.calls, waits)
	}
	cancel()
	if _, err := c.Enqueue(ctx, "q", text("x")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("after its end, the context's error is %v", err)
	}
}
