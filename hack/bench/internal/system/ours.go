package system

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/server"
)

// OursName is the product under its own name.
const OursName = "deadletter"

// Ours is the product: the real binary, over HTTP, with every option at its default.
func Ours(binary string) Kind {
	return Kind{
		Name:     OursName,
		About:    "deadletter api over HTTP, a kept-alive connection per client, every option at its default",
		Postgres: true,
		Start: func(ctx context.Context, setup Setup) (System, error) {
			return StartDeadletter(ctx, binary, setup.Database)
		},
	}
}

// Deadletter is the product, running.
type Deadletter struct {
	api *server.API
	// Queue is where sessions send to and claim from.
	Queue string
}

// StartDeadletter migrates the database and starts the API.
func StartDeadletter(ctx context.Context, binary, database string) (*Deadletter, error) {
	api, err := server.StartAPI(ctx, binary, database)
	if err != nil {
		return nil, err
	}
	return &Deadletter{api: api, Queue: "bench"}, nil
}

// Processes implements [System].
func (d *Deadletter) Processes() []int { return []int{d.api.PID()} }

// Close implements [System].
func (d *Deadletter) Close() error { return d.api.Stop() }

// On is the same server with another queue.
func (d *Deadletter) On(queue string) *Deadletter { return &Deadletter{api: d.api, Queue: queue} }

// Open implements [load.System].
func (d *Deadletter) Open(ctx context.Context) (load.Session, error) { return d.Connect(ctx) }

// Connect is Open for callers that need more than load does.
func (d *Deadletter) Connect(ctx context.Context) (*Client, error) {
	conn, err := dial(ctx, d.api.Address())
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, queue: d.Queue, base: "/queues/" + d.Queue}, nil
}

// Client is a client of the product's API on one connection.
type Client struct {
	conn    *connection
	queue   string
	base    string
	request []byte
	held    []lease
	payload [][]byte
	// claimed is the answer that the payloads are parts of.
	claimed []byte
}

// lease is what a settlement needs of a message.
type lease struct {
	id    int64
	token string
}

// Close implements [load.Session].
func (c *Client) Close() error { return c.conn.Close() }

// Get reads any path.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	return c.conn.do(ctx, http.MethodGet, path, nil, http.StatusOK)
}

// Enqueue implements [load.Session]: one message as one, several as a batch. Payloads are plain text.
func (c *Client) Enqueue(ctx context.Context, payloads [][]byte) error {
	c.request = c.request[:0]
	if len(payloads) == 1 {
		c.appendMessage(payloads[0])
	} else {
		c.request = append(c.request, `{"messages":[`...)
		for i, payload := range payloads {
			if i > 0 {
				c.request = append(c.request, ',')
			}
			c.appendMessage(payload)
		}
		c.request = append(c.request, `]}`...)
	}
	_, err := c.conn.do(ctx, http.MethodPost, c.base+"/messages", c.request, http.StatusCreated)
	return err
}

func (c *Client) appendMessage(payload []byte) {
	c.request = append(append(append(c.request, `{"payload":"`...), payload...), `"}`...)
}

// Claim implements [load.Claimer]; a limit of 1 is the claim of one.
func (c *Client) Claim(ctx context.Context, limit int, wait time.Duration) ([][]byte, error) {
	c.request = append(c.request[:0], '{')
	if limit > 1 {
		c.request = strconv.AppendInt(append(c.request, `"max":`...), int64(limit), 10)
	}
	if wait > 0 {
		if limit > 1 {
			c.request = append(c.request, ',')
		}
		c.request = strconv.AppendInt(append(c.request, `"wait_seconds":`...), int64(wait/time.Second), 10)
	}
	c.request = append(c.request, '}')
	body, err := c.conn.do(ctx, http.MethodPost, c.base+"/claim", c.request, http.StatusOK)
	if err != nil {
		return nil, err
	}
	// The connection goes on with the buffer of the claim before.
	c.claimed, c.conn.body = body, c.claimed
	c.held, c.payload = c.held[:0], c.payload[:0]
	if err := c.readClaim(body); err != nil {
		return nil, fmt.Errorf("answer of claim: %w", err)
	}
	return c.payload, nil
}

// readClaim reads the leases and payloads of both answers a claim has.
func (c *Client) readClaim(body []byte) error {
	text := &scanner{text: body}
	return text.object(func(name []byte) error {
		switch {
		case string(name) == "messages":
			return text.array(func() error { return c.readMessage(text) })
		case string(name) == "message" && text.peek() == '{':
			return c.readMessage(text)
		default:
			return text.skip()
		}
	})
}

func (c *Client) readMessage(text *scanner) error {
	var held lease
	var payload []byte
	err := text.object(func(name []byte) (err error) {
		switch string(name) {
		case "id":
			held.id, err = text.integer()
		case "lease_token":
			var token []byte
			token, err = text.rawString()
			held.token = string(token)
		case "payload":
			payload, err = text.rawString()
		default:
			err = text.skip()
		}
		return err
	})
	if err == nil && (held.id == 0 || held.token == "") {
		err = errors.New("a message without id or lease token")
	}
	c.held, c.payload = append(c.held, held), append(c.payload, payload)
	return err
}

// Ack implements [load.Claimer].
func (c *Client) Ack(ctx context.Context) error {
	if len(c.held) == 1 {
		c.request = append(append(append(c.request[:0], `{"lease_token":"`...), c.held[0].token...), `"}`...)
		path := c.base + "/messages/" + strconv.FormatInt(c.held[0].id, 10) + "/succeed"
		_, err := c.conn.do(ctx, http.MethodPost, path, c.request, http.StatusOK)
		return err
	}
	return c.settle(ctx, "/succeed", "")
}

// Kill makes dead letters of what Claim took last.
func (c *Client) Kill(ctx context.Context, reason string) error {
	return c.settle(ctx, "/fail", `,"retryable":false,"category":"EXTERNAL","error":"`+reason+`"`)
}

// settle ends the claimed messages by one call and checks that each was settled.
func (c *Client) settle(ctx context.Context, path, members string) error {
	c.request = append(c.request[:0], `{"items":[`...)
	for i, held := range c.held {
		if i > 0 {
			c.request = append(c.request, ',')
		}
		c.request = strconv.AppendInt(append(c.request, `{"id":`...), held.id, 10)
		c.request = append(append(append(c.request, `,"lease_token":"`...), held.token...), '"')
		c.request = append(append(c.request, members...), '}')
	}
	c.request = append(c.request, `]}`...)
	body, err := c.conn.do(ctx, http.MethodPost, c.base+path, c.request, http.StatusOK)
	if err != nil {
		return err
	}
	settled, err := countSettled(body)
	if err == nil && settled != len(c.held) {
		err = fmt.Errorf("%d of %d items were settled: %.300s", settled, len(c.held), body)
	}
	return err
}

func countSettled(body []byte) (count int, err error) {
	text := &scanner{text: body}
	result := func(name []byte) error {
		if string(name) != "status" {
			return text.skip()
		}
		status, err := text.integer()
		if status == http.StatusOK {
			count++
		}
		return err
	}
	err = text.object(func(name []byte) error {
		if string(name) != "results" {
			return text.skip()
		}
		return text.array(func() error { return text.object(result) })
	})
	return count, err
}
