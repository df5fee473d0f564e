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

// listing is how all items of a route are found, newest first.
type listing[T any, K comparable] struct {
	path   string
	filter url.Values
	place  func(T) (at time.Time, key K) // the listing is sorted by at; key distinguishes items of one moment
	until  bool                          // whether the route has a parameter of that name, which at is compared with
	moving bool                          // whether items may leave the filter
}

// all iterates over all pages. An item comes once, whatever comes or leaves meanwhile, by the loop's own doing too:
// newer ones are left out, and a page from which items may have left, so that others moved up, is read again. It ends
// with the first error, which comes with a zero item.
func (l listing[T, K]) all(ctx context.Context, c *Client) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		var seen cursor[K]
		query := url.Values{}
		maps.Copy(query, l.filter)
		for number := 1; ; {
			p, err := page[T](ctx, c, l.path, query, number, MaxPageSize)
			if err != nil {
				yield(zero, err)
				return
			}
			fresh := false
			for _, item := range p.Data {
				if !seen.pass(l.place(item)) {
					continue
				}
				if fresh = true; !yield(item, nil) {
					return
				}
			}
			switch {
			case len(p.Data) < MaxPageSize:
				return
			case fresh && l.until:
				number = 1
				setTime(query, "until", seen.at.Add(time.Microsecond))
			case !fresh || !l.moving:
				number++
			}
		}
	}
}

// cursor is how far a listing was yielded: all that is newer than at, and what has these keys of that moment.
type cursor[K comparable] struct {
	at   time.Time
	keys map[K]bool
}

// pass reports whether the item comes behind all that passed before.
func (c *cursor[K]) pass(at time.Time, key K) bool {
	switch {
	case c.keys == nil || at.Before(c.at):
		c.at, c.keys = at, map[K]bool{key: true}
		return true
	case at.After(c.at) || c.keys[key]:
		return false
	default:
		c.keys[key] = true
		return true
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
