package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// MaxPageSize is the most items that a page can have; iterators ask for this many.
const MaxPageSize = 100

// Page is one page of a listing.
type Page[T any] struct {
	Page     int   `json:"page"`     // from 1
	PageSize int   `json:"pageSize"` // items on a full page
	Total    int64 `json:"total"`    // items on all pages
	Data     []T   `json:"data"`
}

// page fetches one page. A page of 0 is the first, a size of 0 the service's default of 20.
func page[T any](ctx context.Context, c *Client, path string, filter url.Values, number, size int) (Page[T], error) {
	query := url.Values{}
	maps.Copy(query, filter)
	set(query, "page", number, strconv.Itoa(number))
	set(query, "pageSize", size, strconv.Itoa(size))
	return fetch[Page[T]](ctx, c, call{method: http.MethodGet, path: path, query: query, safe: true})
}

// all iterates over all pages, newest first. Items that move to the next page because newer ones came in between two
// calls are not repeated. It ends with the first error, which comes with a zero item.
func all[T any, K comparable](ctx context.Context, c *Client, path string, filter url.Values, key func(T) K) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		previous := map[K]bool{}
		for number := 1; ; number++ {
			p, err := page[T](ctx, c, path, filter, number, MaxPageSize)
			if err != nil {
				yield(zero, err)
				return
			}
			seen := make(map[K]bool, len(p.Data))
			for _, item := range p.Data {
				seen[key(item)] = true
				if !previous[key(item)] && !yield(item, nil) {
					return
				}
			}
			if len(p.Data) < MaxPageSize {
				return
			}
			previous = seen
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
