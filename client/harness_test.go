package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds every wait of the tests; none is expected to take long.
const patience = 60 * time.Second

// stack is the program that runs real queue APIs on a real Postgres; see hack/testserver. It belongs to the repository
// around this module.
var stack struct {
	once  sync.Once
	url   string
	err   error
	stdin io.Closer
	cmd   *exec.Cmd
	// shared is the API of the tests that do not stop theirs.
	shared func() (*api, error)
}

func TestMain(m *testing.M) {
	if _, err := os.Stat("../go.mod"); err != nil {
		fmt.Println("skipped: the tests need the repository around this module")
		os.Exit(0)
	}
	stack.shared = sync.OnceValues(func() (*api, error) { return newAPI() })
	code := m.Run()
	if stack.stdin != nil {
		_ = stack.stdin.Close()
		if err := stack.cmd.Wait(); err != nil {
			fmt.Fprintln(os.Stderr, "test server:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func startStack() {
	stack.cmd = exec.CommandContext(context.Background(), "go", "run", "-C", "..", "./hack/testserver")
	stack.cmd.Stderr = os.Stderr
	var out io.ReadCloser
	if stack.stdin, stack.err = stack.cmd.StdinPipe(); stack.err != nil {
		return
	}
	if out, stack.err = stack.cmd.StdoutPipe(); stack.err != nil {
		return
	}
	if stack.err = stack.cmd.Start(); stack.err != nil {
		return
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	stack.url, stack.err = strings.TrimSpace(line), err
}

// api is one process of the queue API.
type api struct{ ID, URL string }

func newAPI(flags ...string) (*api, error) {
	stack.once.Do(startStack)
	if stack.err != nil {
		return nil, fmt.Errorf("start the test server: %w", stack.err)
	}
	a := new(api)
	return a, drive("/apis", map[string]any{"flags": flags}, a)
}

// drive calls the test server.
func drive(path string, body, out any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ask, err := http.NewRequestWithContext(context.Background(), http.MethodPost, stack.url+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(ask)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, text)
	}
	return json.Unmarshal(text, out)
}

// act has something done to the API: start, kill or drain.
func (a *api) act(t *testing.T, action string) {
	t.Helper()
	if err := drive("/apis/"+a.ID+"/"+action, struct{}{}, new(struct{})); err != nil {
		t.Fatal(err)
	}
}

// declare declares a queue with these settings; see hack/testserver.
func (a *api) declare(t *testing.T, settings map[string]any) {
	t.Helper()
	if err := drive("/apis/"+a.ID+"/declare", settings, new(struct{})); err != nil {
		t.Fatal(err)
	}
}

// replayAll replays the dead letters of a queue as a Replay resource does, with another payload.
func (a *api) replayAll(t *testing.T, queue, runID, payload string) {
	t.Helper()
	wish := map[string]any{"queue": queue, "run_id": runID, "payload": payload}
	if err := drive("/apis/"+a.ID+"/replay", wish, new(struct{})); err != nil {
		t.Fatal(err)
	}
}

// sharedAPI is the API that most tests use, each with queues of its own.
func sharedAPI(t testing.TB) *api {
	t.Helper()
	a, err := stack.shared()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// SharedURL is the address of the shared API, for examples.
func SharedURL() (string, error) {
	a, err := stack.shared()
	if err != nil {
		return "", err
	}
	return a.URL, nil
}

// ownAPI is an API of the test's own.
func ownAPI(t *testing.T, flags ...string) *api {
	t.Helper()
	a, err := newAPI(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.act(t, "kill") })
	return a
}

// bench is a client of an API, a queue of the test's own, and what stands between.
type bench struct {
	*Client

	t     *testing.T
	api   *api
	queue string
	wire  *wire
}

var queues atomic.Int64

// newBench is a bench on the shared API.
func newBench(t *testing.T, options ...Option) *bench {
	t.Helper()
	return sharedAPI(t).bench(t, options...)
}

func (a *api) bench(t *testing.T, options ...Option) *bench {
	t.Helper()
	w := &wire{}
	transport := &http.Transport{MaxIdleConnsPerHost: idleConnections}
	t.Cleanup(transport.CloseIdleConnections)
	w.next = transport
	options = append([]Option{WithHTTPClient(&http.Client{Transport: w}), WithConsumer("test", "1.0")}, options...)
	c, err := New(a.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{Client: c, t: t, api: a, queue: fmt.Sprintf("queue %d", queues.Add(1)), wire: w}
}

// wire is what lies between client and server. It can lose requests and answers.
type wire struct {
	next http.RoundTripper

	mu sync.Mutex
	// lose decides, for each request, what gets lost of it.
	lose func(*http.Request) loss
	// sent are the requests that came by: method and path.
	sent []string
	// seen are the headers of the last request.
	seen http.Header
}

type loss int

const (
	nothing loss = iota
	theRequest
	theAnswer
)

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent, w.seen = append(w.sent, r.Method+" "+r.URL.Path), r.Header.Clone()
	lost := nothing
	if w.lose != nil {
		lost = w.lose(r)
	}
	w.mu.Unlock()
	if lost == theRequest {
		return nil, io.ErrUnexpectedEOF
	}
	response, err := w.next.RoundTrip(r)
	if err != nil || lost == nothing {
		return response, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

// loseFirst loses something of the first request whose path ends so, and calls after, if given, before the loss is
// seen.
func (w *wire) loseFirst(suffix string, what loss) {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := false
	w.lose = func(r *http.Request) loss {
		if done || !strings.HasSuffix(r.URL.Path, suffix) {
			return nothing
		}
		done = true
		return what
	}
}

// count is how many requests had a path that ends so.
func (w *wire) count(suffix string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, sent := range w.sent {
		if strings.HasSuffix(sent, suffix) {
			n++
		}
	}
	return n
}

func (w *wire) header(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Get(name)
}

func text(payload string) NewMessage { return NewMessage{Payload: []byte(payload)} }

// put enqueues one message.
func (b *bench) put(m NewMessage) *Message {
	b.t.Helper()
	stored, err := b.Enqueue(b.t.Context(), b.queue, m)
	if err != nil {
		b.t.Fatal(err)
	}
	return stored
}

// take claims one message, which must be there within a while.
func (b *bench) take(options ClaimOptions) *Message {
	b.t.Helper()
	options.Max, options.Wait = 1, 10*time.Second
	got, err := b.Claim(b.t.Context(), b.queue, options)
	if err != nil || len(got) != 1 {
		b.t.Fatalf("claimed %d messages: %v", len(got), err)
	}
	return got[0]
}

// bury makes a dead letter.
func (b *bench) bury(m NewMessage, report FailureReport) *Message {
	b.t.Helper()
	b.put(m)
	report.Permanent = true
	dead, err := b.Fail(b.t.Context(), b.take(ClaimOptions{}).Lease(), report)
	if err != nil || dead.Status != Dead {
		b.t.Fatalf("not buried: %v, %v", dead, err)
	}
	return dead
}

// get reads a message.
func (b *bench) get(id int64) *Message {
	b.t.Helper()
	m, err := b.Get(b.t.Context(), b.queue, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// eventually waits for a condition that another goroutine or process brings about.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
