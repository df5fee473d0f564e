// Package fetch makes the providers' HTTP calls: few retries, since a caller waits, bounded answers, and no key in an
// error or a log.
package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

const (
	longestAnswer = 8 << 20 // bytes
	attemptLimit  = 4 * time.Second
	retries       = 1
	retryWait     = 200 * time.Millisecond
	idle          = 30 * time.Second
	connections   = 16
)

// Client calls one provider. The key travels in the header Authorization.
type Client struct {
	http *retryablehttp.Client
	base string
	key  string
}

// keepIdle hides CloseIdleConnections: after each failed call the library would close everybody's.
type keepIdle struct{ http.RoundTripper }

// New makes a client for addresses below base.
func New(base, key string) *Client {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = retries, retryWait, retryWait
	c.CheckRetry = worthRetrying
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.HTTPClient = &http.Client{
		Timeout: attemptLimit,
		Transport: keepIdle{&http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, IdleConnTimeout: idle}},
		// A redirect elsewhere would take the key along or lose it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{http: c, base: strings.TrimRight(base, "/"), key: key}
}

// worthRetrying reports whether to call again: after a broken connection and what a gateway answers. A rate limit is
// for the caller.
func worthRetrying(ctx context.Context, response *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err != nil {
		u, isURL := errors.AsType[*url.Error](err)
		return !isURL || !u.Timeout(), nil
	}
	return response.StatusCode == http.StatusBadGateway || response.StatusCode == http.StatusServiceUnavailable ||
		response.StatusCode == http.StatusGatewayTimeout, nil
}

// RateLimited is a provider's refusal because it was asked too often.
type RateLimited struct{ RetryAfter time.Duration } // 0: it does not say

// Error reports what happened.
func (*RateLimited) Error() string { return "the provider's rate limit is reached" }

// JSON decodes the answer of a GET. Errors: *RateLimited for a 429; any other status but 200 by its number.
func (c *Client) JSON(ctx context.Context, path string, query url.Values, into any) error {
	request, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return errors.New("the provider's address is not a valid URL")
	}
	request.Header.Set("Authorization", c.key)
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return fmt.Errorf("call provider: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer+1))
	if err != nil {
		return fmt.Errorf("read provider's answer: %w", err)
	}
	switch {
	case response.StatusCode == http.StatusTooManyRequests:
		return &RateLimited{RetryAfter: retryAfter(response.Header, body)}
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("the provider answered with status %d", response.StatusCode)
	case len(body) > longestAnswer:
		return errors.New("the provider's answer is too long")
	}
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) { // null would be decoded as an answer without matches
		return errors.New("the provider's answer is not a JSON object")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode provider's answer: %w", err)
	}
	return nil
}

// retryAfter returns what a 429 says: in its header, seconds or a date, or in its body.
func retryAfter(h http.Header, body []byte) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return time.Until(at)
	}
	if n, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil && n > 1e9 {
		return time.Until(time.Unix(n, 0))
	}
	var hint struct {
		RetryAfter float64 `json:"retry_after"`
		RateLimit  struct {
			ResetsIn float64 `json:"resets_in_seconds"`
		} `json:"rate_limit"`
	}
	_ = json.Unmarshal(body, &hint) // a body without it is no fault
	seconds := max(hint.RetryAfter, hint.RateLimit.ResetsIn)
	return time.Duration(min(seconds, 86400) * float64(time.Second))
}
