package system

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// connection is an HTTP/1.1 client of one kept-alive connection that waits for each answer before the next request.
// Client and server share the machine's cores, so it does no more than a lean client in any language would: what
// net/http's does beyond (connection pool, redirects, a goroutine per direction) would be counted against the server.
type connection struct {
	conn   net.Conn
	reader *bufio.Reader
	host   string
	head   []byte
	body   []byte
}

const (
	connectionBuffer = 64 << 10
	requestTimeout   = 60 * time.Second
)

func dial(ctx context.Context, address string) (*connection, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, reader: bufio.NewReaderSize(conn, connectionBuffer), host: address}, nil
}

func (c *connection) Close() error { return c.conn.Close() }

// do sends a request and returns the body of the answer, which is valid until the next call. Any status but the wanted
// one is an error.
func (c *connection) do(ctx context.Context, method, path string, body []byte, want int) ([]byte, error) {
	// An end of the context cuts the connection's deadlines, as net/http does it.
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := c.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return nil, err
	}
	c.head = append(append(append(append(c.head[:0], method...), ' '), path...), " HTTP/1.1\r\nHost: "...)
	c.head = append(append(c.head, c.host...), "\r\nContent-Type: application/json\r\nContent-Length: "...)
	c.head = append(append(strconv.AppendInt(c.head, int64(len(body)), 10), "\r\n\r\n"...), body...)
	if _, err := c.conn.Write(c.head); err != nil {
		return nil, c.failure(ctx, err)
	}
	status, err := c.answer()
	if err != nil {
		return nil, c.failure(ctx, fmt.Errorf("%s %s: %w", method, path, err))
	}
	if status != want {
		return nil, fmt.Errorf("%s %s: status %d: %s", method, path, status, c.body)
	}
	return c.body, nil
}

func (c *connection) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// answer reads one answer into c.body and returns its status.
func (c *connection) answer() (status int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	if status, err = strconv.Atoi(string(code)); err != nil {
		return 0, fmt.Errorf("status line %q", line)
	}
	length, chunked := 0, false
	for {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, fmt.Errorf("content length %q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(value, []byte("close")):
			return 0, errors.New("the server closes the connection")
		}
	}
	c.body = c.body[:0]
	if chunked {
		return status, c.chunks()
	}
	return status, c.read(length)
}

// line reads to the end of a line and cuts it off.
func (c *connection) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// read appends n bytes to the body.
func (c *connection) read(n int) error {
	have := len(c.body)
	if need := have + n; need > cap(c.body) {
		c.body = append(make([]byte, 0, 2*need), c.body...)
	}
	c.body = c.body[:have+n]
	_, err := io.ReadFull(c.reader, c.body[have:])
	return err
}

func (c *connection) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(line), 16, 32)
		if err != nil {
			return fmt.Errorf("chunk size %q", line)
		}
		if err := c.read(int(size)); err != nil {
			return err
		}
		if _, err := c.line(); err != nil || size == 0 {
			return err
		}
	}
}
