package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// call is one call of a route that takes a Bearer token.
type call struct {
	method string
	path   string
	query  url.Values
	body   any  // nil for none
	safe   bool // to repeat after an answer was lost: the second call changes nothing that the first did not

	status  int    // of its success, 200 when it is 0
	members string // that the body of its success has at least, separated by spaces
}

// get returns a call that reads.
func get(path string, query url.Values, members string) call {
	return call{method: http.MethodGet, path: path, query: query, safe: true, members: members}
}

const (
	firstWait   = time.Second
	longestWait = time.Minute
)

// do makes the call and repeats it while that is safe and may help. decode gets the body of a success; nil ignores it.
func (c *Client) do(ctx context.Context, k call, decode func([]byte) error) error {
	var body []byte
	if k.body != nil {
		var err error
		if body, err = json.Marshal(k.body); err != nil {
			return fmt.Errorf("encode the body of %s %s: %w", k.method, k.path, err)
		}
	}
	return c.repeat(ctx, k, func() error { return c.authorized(ctx, k, body, decode) })
}

// repeat makes the call until it succeeds, or again is not safe or cannot help.
func (c *Client) repeat(ctx context.Context, k call, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		wait, again := retry(k, err, attempt)
		if !again || attempt >= c.attempts || !pause(ctx, wait) {
			return err
		}
	}
}

// authorized sends the call with the session's token. After a 401 the token is refreshed, after another one a new
// session is begun; a third one is final.
func (c *Client) authorized(ctx context.Context, k call, body []byte, decode func([]byte) error) error {
	for renewals := 0; ; renewals++ {
		token, err := c.session.token(ctx)
		if err != nil {
			return err
		}
		err = c.send(ctx, k, body, http.Header{"Authorization": {"Bearer " + token}}, decode)
		if !errors.Is(err, ErrUnauthorized) || renewals == 2 {
			return err
		}
		c.session.reject(token, renewals > 0)
	}
}

// send makes one HTTP call.
func (c *Client) send(ctx context.Context, k call, body []byte, header http.Header,
	decode func([]byte) error) error {
	address := c.base + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, k.method, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make %s %s: %w", k.method, k.path, err)
	}
	request.Header = header
	request.Header.Set("User-Agent", c.userAgent)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return errorOf(k.method, k.path, response)
	}
	text, err := whole(response.Body) // to its end, so that the connection is used again
	if err == nil {
		err = k.check(response.StatusCode, text)
	}
	if err == nil && decode != nil {
		err = decode(text)
	}
	if err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", k.method, k.path, err)
	}
	return nil
}

// check returns an error when a success is not the service's own: a proxy may answer in its place.
func (k call) check(status int, text []byte) error {
	if want := cmp.Or(k.status, http.StatusOK); status != want {
		return fmt.Errorf("its status is %d, not %d", status, want)
	}
	if k.members == "" {
		return nil
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(text, &body); err != nil {
		return err
	}
	for name := range strings.FieldsSeq(k.members) {
		if value := string(body[name]); value == "" || value == "null" && name != "next_cursor" {
			return fmt.Errorf("it has no %s", name)
		}
	}
	return nil
}

// fetch makes the call and returns the body of its success.
func fetch[T any](ctx context.Context, c *Client, k call) (T, error) {
	var value T
	err := c.do(ctx, k, func(text []byte) error {
		var fresh T
		if err := json.Unmarshal(text, &fresh); err != nil {
			return err
		}
		if string(bytes.TrimSpace(text)) == "null" {
			return errors.New("it is null")
		}
		value = fresh
		return nil
	})
	return value, err
}

// retry reports whether the call may be made again after err, and when. A call that is not safe is repeated only when
// the service has certainly not acted on it.
func retry(k call, err error, attempt int) (time.Duration, bool) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrTooLarge) {
		return 0, false
	}
	wait, again := backoff(attempt), k.safe || neverSent(err)
	if answer, answered := errors.AsType[*Error](err); answered {
		wait, again = max(wait, answer.RetryAfter), passing(answer.Status, again)
	}
	return wait, again && wait <= longestWait // the caller decides about longer waits: Error.RetryAfter
}

// passing reports whether an answer may be another one later on.
func passing(status int, safe bool) bool {
	switch status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return safe
	default:
		return false
	}
}

// neverSent reports whether the call did not reach the service: there was no token for it, or no connection.
func neverSent(err error) bool {
	if _, noToken := errors.AsType[*tokenError](err); noToken {
		return true
	}
	connecting, ok := errors.AsType[*net.OpError](err)
	return ok && connecting.Op == "dial"
}

// backoff returns the wait after the attempt-th failure: 1 s, 2 s, 4 s … up to a minute, a quarter less or more.
func backoff(attempt int) time.Duration {
	wait := min(firstWait<<min(attempt-1, 10), longestWait*4/5)
	return wait*3/4 + rand.N(wait/2)
}

// pause waits and reports whether there is time left to go on.
func pause(ctx context.Context, wait time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}
