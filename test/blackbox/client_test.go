package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

const requestTimeout = 40 * time.Second

var client = &http.Client{
	Timeout:   requestTimeout,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// answer is a response that arrived whole.
type answer struct {
	status int
	body   []byte
}

func get(ctx context.Context, url string) (answer, error) {
	return send(ctx, http.MethodGet, url, nil)
}

func post(ctx context.Context, url string, body any) (answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	return send(ctx, http.MethodPost, url, raw)
}

func send(ctx context.Context, method, url string, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, raw}, err
}

// message is what the tests read of a message.
type message struct {
	ID             int64      `json:"id"`
	Payload        string     `json:"payload"`
	Status         string     `json:"status"`
	LeaseToken     string     `json:"lease_token"`
	LeaseExpiresAt *time.Time `json:"lease_expires_at"`
}

type messages struct {
	Messages   []message `json:"messages"`
	NextCursor *string   `json:"next_cursor"`
}

type queue struct {
	Depth struct {
		Pending, Processing, Succeeded, Dead int
	} `json:"depth"`
}
