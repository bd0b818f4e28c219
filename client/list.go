package client

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// MessageFilter says which messages to list. Its zero value lists all of a queue.
type MessageFilter struct {
	// Status is the state of the messages; empty means any.
	Status Status
	// Offset skips messages at the start. Its cost grows with it.
	Offset int
	// PageSize is how many messages to fetch at a time, from 1 to 100; 0 means 100.
	PageSize int
}

// Get returns one message with its whole payload. It returns [ErrNotFound] when there is none.
func (c *Client) Get(ctx context.Context, queue string, id int64) (*Message, error) {
	m := new(Message)
	_, err := c.do(ctx, request{method: http.MethodGet, path: messagePath(queue, id, ""), safety: readOnly}, m)
	if err != nil {
		return nil, fmt.Errorf("get message %d of %q: %w", id, queue, err)
	}
	return m, nil
}

// Messages walks the messages of a queue by id. The walk neither skips nor repeats messages that stay in the list while
// others come and go. Long payloads are cut; see [Message]. An error ends the walk.
func (c *Client) Messages(ctx context.Context, queue string, filter MessageFilter) iter.Seq2[*Message, error] {
	query := url.Values{}
	if filter.Status != "" {
		query.Set("status", string(filter.Status))
	}
	return walk(filter.PageSize, query, func(query url.Values) ([]*Message, string, error) {
		if filter.Offset != 0 && !query.Has("cursor") {
			query.Set("offset", strconv.Itoa(filter.Offset))
		}
		var page struct {
			Messages   []*Message `json:"messages"`
			NextCursor string     `json:"next_cursor"`
		}
		_, err := c.do(ctx, request{
			method: http.MethodGet, path: queuePath(queue, "/messages"), query: query, safety: readOnly,
		}, &page)
		if err != nil {
			err = fmt.Errorf("list messages of %q: %w", queue, err)
		}
		return page.Messages, page.NextCursor, err
	})
}

const maxPage = 100

// walk goes through pages, each fetched when the one before is used up.
func walk[T any](size int, query url.Values, fetch func(url.Values) ([]T, string, error)) iter.Seq2[T, error] {
	if size == 0 {
		size = maxPage
	}
	return func(yield func(T, error) bool) {
		page := url.Values{"limit": {strconv.Itoa(size)}}
		maps.Copy(page, query)
		for {
			items, next, err := fetch(page)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			page.Del("offset")
			page.Set("cursor", next)
		}
	}
}
