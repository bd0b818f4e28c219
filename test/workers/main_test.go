package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/apitest"
)

// patience bounds every wait; none is expected to take long.
const patience = 90 * time.Second

var stack *apitest.Stack

func TestMain(m *testing.M) {
	started, err := apitest.Start(context.Background(), "../..")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stack = started
	code := m.Run()
	if err := stack.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// language is one that the manual has programs in.
type language struct {
	// block is the name of its code blocks.
	block string
	// needs are the programs that must be installed; the first runs a file.
	needs []string
	file  string
}

var languages = []language{
	{"bash", []string{"bash", "curl", "jq"}, "sh"},
	{"python", []string{"python3"}, "py"},
	{"javascript", []string{"node"}, "mjs"},
}

// programs writes the language's two programs to files: the one that sends and the worker.
func (l language) programs(t *testing.T) (send, work string) {
	t.Helper()
	for _, name := range l.needs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed; make deps does it", name)
		}
	}
	page, err := os.ReadFile("../../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```"+l.block+"\n(.*?\n)```\n").FindAllSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("the manual has %d blocks of %s", len(blocks), l.block)
	}
	dir := t.TempDir()
	for i, name := range []string{"enqueue.", "worker."} {
		if err := os.WriteFile(filepath.Join(dir, name+l.file), blocks[i][1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "enqueue."+l.file), filepath.Join(dir, "worker."+l.file)
}

// api is a queue API of a test's own.
type api struct {
	*apitest.API

	t *testing.T
}

func startAPI(t *testing.T) *api {
	t.Helper()
	a, err := stack.API(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Kill9(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the API:\n%s", a.Log())
		}
	})
	return &api{a, t}
}

// losing is an address of the API behind which the first answer to a call of each of these kinds gets lost.
func (a *api) losing(kinds ...string) string {
	a.t.Helper()
	target, err := url.Parse(a.URL())
	if err != nil {
		a.t.Fatal(err)
	}
	var mu sync.Mutex
	isLost := func(path string) bool {
		mu.Lock()
		defer mu.Unlock()
		for i, kind := range kinds {
			if strings.HasSuffix(path, kind) {
				kinds = slices.Delete(kinds, i, i+1)
				return true
			}
		}
		return false
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ModifyResponse = func(response *http.Response) error {
		if isLost(response.Request.URL.Path) {
			return errLost
		}
		return nil
	}
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		if errors.Is(err, errLost) {
			panic(http.ErrAbortHandler) // The connection breaks.
		}
		w.WriteHeader(http.StatusBadGateway)
	}
	server := httptest.NewServer(proxy)
	a.t.Cleanup(server.Close)
	return server.URL
}

var errLost = errors.New("lost")

// message is what the tests read of a message.
type message struct {
	ID            int64  `json:"id"`
	Status        string `json:"status"`
	RetryCount    int    `json:"retry_count"`
	DeliveryCount int    `json:"delivery_count"`
	LastFailure   *struct {
		Reason     string `json:"reason"`
		Category   string `json:"category"`
		ErrorClass string `json:"error_class"`
		Consumer   struct {
			Instance string `json:"instance"`
			Version  string `json:"version"`
		} `json:"consumer"`
	} `json:"last_failure"`
}

// call calls the API and decodes its answer.
func (a *api) call(method, path, body string, answer any) {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), method, a.URL()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		a.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		a.t.Fatalf("%s %s: %v, %s: %s", method, path, err, response.Status, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) get(id int64) message {
	a.t.Helper()
	var m message
	a.call(http.MethodGet, fmt.Sprintf("/queues/orders/messages/%d", id), "", &m)
	return m
}

// await waits until a message is as wished.
func (a *api) await(id int64, what string, wished func(message) bool) message {
	a.t.Helper()
	var m message
	eventually(a.t, fmt.Sprintf("message %d to be %s", id, what), func() bool {
		m = a.get(id)
		return wished(m)
	})
	return m
}

// output is what a program writes; it can be read while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// command is a program of the manual, with the API's address.
func (a *api) command(l language, address string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(a.t.Context(), l.needs[0], arguments...)
	cmd.Env = append(os.Environ(), "DEADLETTER_URL="+address, "HOLD_SECONDS=3")
	// Programs that a killed one leaves behind must not keep the test waiting.
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// send has the language's program send a message.
func (a *api) send(l language, program, payload string) {
	a.t.Helper()
	if out, err := a.command(l, a.URL(), program, payload).CombinedOutput(); err != nil {
		a.t.Fatalf("send: %v\n%s", err, out)
	}
}

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
