// Command testserver runs queue APIs for tests that are not part of this module: the Go client's. It is driven over
// HTTP and ends, with all that it has started, when its standard input does.
//
// It prints the address of its own API:
//
//	POST /apis {"flags": [...]}          start a queue API on an empty database: {"id", "url"}
//	POST /apis/{id}/start|kill|drain     start it again, end it by SIGKILL, or by SIGTERM
//	POST /apis/{id}/declare {...}        declare a queue; see declaration
//	POST /apis/{id}/replay {...}         replay the dead letters of a queue; see replay
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"deadletter.dev/deadletter/internal/apitest"
	"deadletter.dev/deadletter/internal/message"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	stack, err := apitest.Start(ctx, ".")
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, stack.Stop())
	}
	s := &server{stack: stack, apis: map[string]*apitest.API{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis", s.create)
	mux.HandleFunc("POST /apis/{id}/{action}", s.act)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // Until the caller is gone.
		_ = web.Close()
	}()
	fmt.Printf("http://%s\n", listener.Addr())
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, stack.Stop())
	}
	return stack.Stop()
}

// server drives queue APIs.
type server struct {
	stack *apitest.Stack

	mu   sync.Mutex
	apis map[string]*apitest.API
}

// declaration is what a test may wish of a queue; what is left out has its default.
type declaration struct {
	Queue                    string  `json:"queue"`
	MaxLength                int64   `json:"max_length"`
	MaxRetries               int     `json:"max_retries"`
	BackoffSeconds           float64 `json:"backoff_seconds"`
	VisibilityTimeoutSeconds float64 `json:"visibility_timeout_seconds"`
	SucceededSeconds         float64 `json:"succeeded_seconds"`
	Paused                   bool    `json:"paused"`
}

// replay is a run of all dead letters of a queue, whose payloads may be replaced.
type replay struct {
	Queue   string `json:"queue"`
	RunID   string `json:"run_id"`
	Payload string `json:"payload"`
}

func (d *declaration) apply(settings *message.Settings) {
	settings.MaxLength = d.MaxLength
	if d.MaxRetries != 0 {
		settings.MaxRetries = d.MaxRetries
	}
	for _, c := range []struct {
		wish  float64
		field *time.Duration
	}{
		{d.BackoffSeconds, &settings.Backoff.Initial},
		{d.VisibilityTimeoutSeconds, &settings.VisibilityTimeout},
		{d.SucceededSeconds, &settings.Retention.Succeeded},
	} {
		if c.wish != 0 {
			*c.field = time.Duration(c.wish * float64(time.Second))
		}
	}
	if d.Paused {
		settings.State = message.Paused
	}
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	var wish struct {
		Flags []string `json:"flags"`
	}
	if err := json.NewDecoder(r.Body).Decode(&wish); err != nil {
		answer(w, nil, err)
		return
	}
	// Its process outlives the request.
	api, err := s.stack.API(context.WithoutCancel(r.Context()), wish.Flags...)
	if err != nil {
		answer(w, nil, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := strconv.Itoa(len(s.apis) + 1)
	s.apis[id] = api
	answer(w, map[string]string{"id": id, "url": api.URL()}, nil)
}

func (s *server) act(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	api := s.apis[r.PathValue("id")]
	s.mu.Unlock()
	if api == nil {
		answer(w, nil, errors.New("there is no such API"))
		return
	}
	ctx := context.WithoutCancel(r.Context())
	var err error
	switch action := r.PathValue("action"); action {
	case "start":
		err = api.Start(ctx)
	case "kill":
		err = api.Kill9()
	case "drain":
		err = api.Drain()
	case "declare":
		var wish declaration
		if err = json.NewDecoder(r.Body).Decode(&wish); err == nil {
			err = api.Declare(ctx, wish.Queue, wish.apply)
		}
	case "replay":
		var wish replay
		if err = json.NewDecoder(r.Body).Decode(&wish); err == nil {
			err = api.Replay(ctx, wish.Queue, wish.RunID, wish.Payload)
		}
	default:
		err = fmt.Errorf("%s cannot be done", action)
	}
	answer(w, map[string]string{}, err)
}

func answer(w http.ResponseWriter, body map[string]string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Print(err) // The caller is gone.
	}
}
