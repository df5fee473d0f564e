package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"strconv"
	"time"
)

// MaxLimit is the most items that a page can have; iterators ask for this many.
const MaxLimit = 100

// Page is one page of a list, newest first.
type Page[T any] struct {
	Data       []T    `json:"data"`
	NextCursor string `json:"next_cursor"` // of the page behind it; empty: that was all
}

// page fetches the page behind a cursor, an empty one the first. A limit of 0 is the service's default of 20.
func page[T any](ctx context.Context, c *Client, path string, filter url.Values, limit int, cursor string) (
	Page[T], error) {
	query := url.Values{}
	maps.Copy(query, filter)
	set(query, "limit", limit, strconv.Itoa(limit))
	set(query, "cursor", cursor, cursor)
	return fetch[Page[T]](ctx, c, get(path, query, "data next_cursor"))
}

// all iterates over all pages. Every item that is there at the start comes once, whatever comes or leaves meanwhile, by
// the loop's own doing too. It ends with the first error, which comes with a zero item. A page that is too large to be
// read at once is asked for in smaller ones.
func all[T any](ctx context.Context, c *Client, path string, filter url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		limit, seen := MaxLimit, map[string]bool{}
		for cursor := ""; ; {
			p, err := page[T](ctx, c, path, filter, limit, cursor)
			if errors.Is(err, ErrTooLarge) && limit > 1 {
				limit /= 2
				continue
			}
			if err == nil && seen[p.NextCursor] {
				err = fmt.Errorf("client: the list at %s goes on with a page that was read", path)
			}
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range p.Data {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = p.NextCursor; cursor == "" {
				return
			}
			seen[cursor] = true
		}
	}
}

// set adds a parameter unless its value is the zero one.
func set[T comparable](query url.Values, name string, value T, text string) {
	var zero T
	if value != zero {
		query.Set(name, text)
	}
}

func setTime(query url.Values, name string, at time.Time) {
	if !at.IsZero() {
		query.Set(name, at.UTC().Format(time.RFC3339Nano))
	}
}
