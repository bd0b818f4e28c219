package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// api is a client of the queue API, as a worker in any language has one.
type api struct {
	base string
	http http.Client
}

func newAPI(base string) *api {
	return &api{base: base, http: http.Client{Timeout: 30 * time.Second}}
}

// The parts of the queue API's answers that the story needs.
type (
	claimed struct {
		Messages []message `json:"messages"`
	}
	message struct {
		ID         int64  `json:"id"`
		Payload    string `json:"payload"`
		Status     string `json:"status"`
		RetryCount int    `json:"retry_count"`
		LeaseToken string `json:"lease_token"`
	}
	queue struct {
		Depth depth `json:"depth"`
	}
	depth struct {
		Pending    int `json:"pending"`
		Processing int `json:"processing"`
		Succeeded  int `json:"succeeded"`
		Dead       int `json:"dead"`
	}
	groups struct {
		Groups []group `json:"groups"`
	}
	group struct {
		Fingerprint string `json:"fingerprint"`
		Category    string `json:"category"`
		Count       int    `json:"count"`
		Sample      struct {
			Reason string `json:"reason"`
		} `json:"sample"`
	}
	letters struct {
		DeadLetters []letter `json:"dead_letters"`
	}
	letter struct {
		Envelope struct {
			MessageID int64  `json:"message_id"`
			Category  string `json:"failure_category"`
		} `json:"dlq_envelope"`
		Body     string    `json:"original_body"`
		Attempts []attempt `json:"attempts"`
	}
	attempt struct {
		Number   int    `json:"number"`
		Outcome  string `json:"outcome"`
		Consumer struct {
			Instance string `json:"instance"`
			Version  string `json:"version"`
		} `json:"consumer"`
		Failure struct {
			Reason string `json:"reason"`
		} `json:"failure"`
	}
)

func (a *api) get(ctx context.Context, path string, answer any) error {
	return a.call(ctx, http.MethodGet, path, nil, answer)
}

func (a *api) post(ctx context.Context, path string, body, answer any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}

	return a.call(ctx, http.MethodPost, path, content, answer)
}

func (a *api) call(ctx context.Context, method, path string, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}

	request.Header.Set("Content-Type", "application/json")

	response, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}

	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s\n%s", method, path, response.Status, content)
	}

	return json.Unmarshal(content, answer)
}
