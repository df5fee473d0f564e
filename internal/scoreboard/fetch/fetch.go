// Package fetch makes the HTTP calls to the providers. It repeats none, since a caller waits; answers are bounded, and
// no key gets into an error or a log.
package fetch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"
)

const (
	// A full page has up to 0.5 MB, 20,000 values and 100 matches; one that pages differently may have more. 8 kB that are
	// packed can hold far more, and once an answer is decoded it takes up to 50 times its bytes.
	longestAnswer = 2 << 20 // bytes, unpacked
	mostValues    = 50_000
	mostMatches   = 500
	callLimit     = 4 * time.Second
	idle          = 30 * time.Second
	connections   = 16
	mostNotes     = 1000 // that are remembered
	// longestSeconds is a day; more is believed in no body.
	longestSeconds = 24 * 60 * 60
	// longestMessage is how much of a provider's text is logged, in bytes.
	longestMessage = 300
)

var errTooLong = errors.New("the provider's answer is too long")

// Client calls one provider. The key travels in the header Authorization.
type Client struct {
	http     *http.Client
	base     string
	key      string
	log      *slog.Logger
	noted    *lru.Cache[string, time.Time]
	decoding *semaphore.Weighted // one answer at a time: decoding has no other end, and takes the most memory
}

// New makes a client for addresses below base.
func New(base, key string, log *slog.Logger) *Client {
	noted, _ := lru.New[string, time.Time](mostNotes) // it fails without a size alone
	c := &http.Client{
		Timeout: callLimit,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, IdleConnTimeout: idle,
			// calls would keep a dead HTTP/2 connection from being idle
			HTTP2: &http.HTTP2Config{SendPingTimeout: callLimit, PingTimeout: callLimit}},
		// A redirect elsewhere would take the key along or lose it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{http: c, base: strings.TrimRight(base, "/"), key: key, log: log, noted: noted,
		decoding: semaphore.NewWeighted(1)}
}

// RateLimited is a provider's refusal because it was asked too often.
type RateLimited struct{ RetryAfter time.Duration } // 0: it does not say

// Error reports what happened.
func (*RateLimited) Error() string { return "the provider's rate limit is reached" }

// Away is a provider's refusal that says when to come back.
type Away struct {
	RetryAfter time.Duration
	cause      error
}

// Error reports what the provider answered.
func (a *Away) Error() string { return a.cause.Error() }

// Page asks for a page of matches, which is the list data; without it there are none. A value that is no object is nil
// in it. Errors: *RateLimited for a 429, *Away for a 503 that says when to come back; any other status but 200 by its
// number.
func (c *Client) Page(ctx context.Context, path string, query url.Values) (page Object, matches []Object, err error) {
	response, body, err := c.get(ctx, path, query) //nolint:bodyclose // get has closed it
	if err != nil {
		return nil, nil, err
	}
	page, err = c.decode(ctx, body)
	switch {
	case response.StatusCode == http.StatusTooManyRequests:
		return nil, nil, &RateLimited{RetryAfter: retryAfter(response.Header, page)}
	case response.StatusCode != http.StatusOK:
		refused := c.refusal(response.StatusCode, page)
		if wait := announced(response.Header); response.StatusCode == http.StatusServiceUnavailable && wait > 0 {
			return nil, nil, &Away{wait, refused}
		}
		return nil, nil, refused
	case err != nil:
		return nil, nil, err
	}
	data, isList := page["data"].([]any)
	switch {
	case !isList && page["data"] != nil:
		return nil, nil, errors.New("the provider's answer has no list of matches")
	case len(data) > mostMatches:
		return nil, nil, errTooLong
	}
	for _, value := range data {
		match, _ := value.(map[string]any)
		matches = append(matches, match)
	}
	if text := c.message(page); len(matches) == 0 && text != "" {
		c.noteHourly(ctx, "the provider answers without matches", "says", text)
	}
	return page, matches, nil
}

// decode returns the object that an answer is; an error comes with none.
func (c *Client) decode(ctx context.Context, body []byte) (page Object, err error) {
	if len(body) > longestAnswer || mayHold(body) > mostValues {
		return nil, errTooLong
	}
	if err := c.decoding.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("wait for other answers of the provider: %w", err)
	}
	defer c.decoding.Release(1)
	if json.Valid(body) { // Decode alone would not see what follows
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber() // ids are int64
		_ = decoder.Decode(&page)
	}
	if page == nil { // nor is null: it would be an answer without matches
		return nil, errors.New("the provider's answer is not a JSON object")
	}
	return page, nil
}

// mayHold returns how many values a JSON text has at most: each follows one of these bytes, but for the first.
func mayHold(body []byte) int {
	return bytes.Count(body, []byte(",")) + bytes.Count(body, []byte("[")) + bytes.Count(body, []byte("{"))
}

// get returns the answer to a GET and its body, as far as it may be read; of a refusal as far as it can be: its status
// says all that is needed.
func (c *Client) get(ctx context.Context, path string, query url.Values) (*http.Response, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, nil, errors.New("the provider's address is not a valid URL")
	}
	request.Header.Set("Authorization", c.key)
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, nil, fmt.Errorf("call provider: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer+1))
	if err != nil && response.StatusCode == http.StatusOK {
		return nil, nil, fmt.Errorf("read provider's answer: %w", err)
	}
	return response, body, nil
}

// refusal returns what the provider answered, with its own words where it has some.
func (c *Client) refusal(status int, answer Object) error {
	if text := c.message(answer); text != "" {
		return fmt.Errorf("the provider answered with status %d: %q", status, text)
	}
	return fmt.Errorf("the provider answered with status %d", status)
}

// message returns the provider's words about its answer, without the key.
func (c *Client) message(answer Object) string {
	text := cmp.Or(answer.whole("message"), answer.whole("error")) // a key is replaced before it could be cut
	if c.key != "" {
		text = strings.ReplaceAll(text, c.key, "[key]")
	}
	return strings.ToValidUTF8(text[:min(len(text), longestMessage)], "")
}

// LeftOut logs that a match cannot be shown, once an hour.
func (c *Client) LeftOut(ctx context.Context, match Object) {
	id := match.Text("id")
	c.noteHourly(ctx, "a match is left out: it has no id or no time", "match", id[:min(len(id), longestMessage)])
}

// noteHourly logs a text once an hour.
func (c *Client) noteHourly(ctx context.Context, event, name, value string) {
	key, now := event+value, time.Now()
	if at, noted := c.noted.Get(key); noted && now.Sub(at) < time.Hour {
		return
	}
	c.noted.Add(key, now)
	c.log.WarnContext(ctx, event, name, value)
}

// announced returns how long the header Retry-After says to wait, in seconds or until a date; 0 when it does not say.
func announced(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// retryAfter returns what a 429 says, in its header or in its body.
func retryAfter(h http.Header, answer Object) time.Duration {
	if wait := announced(h); wait > 0 {
		return wait
	}
	said, _ := answer.Int("retry_after")
	limit, _ := answer.Member("rate_limit").Int("resets_in_seconds")
	return time.Duration(min(max(said, limit, 0), longestSeconds)) * time.Second
}
