// Package client calls a supplyhub service on behalf of one supplier. It keeps the session's tokens fresh, repeats what
// is safe to repeat, and returns problem documents as typed errors. It imports nothing of the service but package
// webhook.
package client

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultAttempts  = 5
	defaultTimeout   = 90 * time.Second // a call that waits for estimates takes up to 60 s
	defaultUserAgent = "supplyhub-go-client"
	idleConnections  = 32
	pingAfter        = 15 * time.Second // of silence: calls would keep a dead HTTP/2 connection from being idle
)

// Config says how a service is reached. BaseURL and APIKey are required.
type Config struct {
	BaseURL string // scheme, host and, behind a proxy, the path that the service's paths follow
	APIKey  string // hub_sk_…; it goes to the token endpoint only, without white space around it

	// HTTP makes the calls; one with a timeout of 90 seconds by default. Redirects are never followed: the API key
	// would go along to the host that is named.
	HTTP *http.Client
	// Attempts is how often a call is made at most when it fails in a way that may pass; 5 by default, 1 for never again.
	Attempts int
	// UserAgent is sent with every call.
	UserAgent string
}

// Client calls the service. It is safe for concurrent use; one for each supplier and process is enough.
type Client struct {
	base      string
	http      *http.Client
	userAgent string
	attempts  int
	session   *session
}

// New checks config and returns a client. It makes no call: the first one that needs a token fetches it.
func New(config Config) (*Client, error) {
	base, err := url.Parse(config.BaseURL)
	key := strings.TrimSpace(config.APIKey)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: BaseURL: %w", err)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, errors.New("client: BaseURL must be an http or https address")
	case base.User != nil || strings.ContainsAny(config.BaseURL, "?#"):
		return nil, errors.New("client: BaseURL must have no user, query or fragment")
	case key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("client: APIKey is empty, or has characters that no key has")
	}
	c := &Client{
		base: strings.TrimRight(base.String(), "/"), http: httpClient(config.HTTP),
		userAgent: cmp.Or(config.UserAgent, defaultUserAgent), attempts: cmp.Or(config.Attempts, defaultAttempts),
	}
	c.session = newSession(c, key)
	return c, nil
}

// Format prints the address alone, for every verb of fmt: a client holds tokens.
func (c Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "client of "+c.base) }

// httpClient returns a copy of h that follows no redirect.
func httpClient(h *http.Client) *http.Client {
	if h == nil {
		h = &http.Client{Timeout: defaultTimeout}
		if transport, ok := http.DefaultTransport.(*http.Transport); ok {
			own := transport.Clone()
			own.MaxIdleConnsPerHost = idleConnections
			own.HTTP2 = cmp.Or(own.HTTP2, &http.HTTP2Config{SendPingTimeout: pingAfter})
			h.Transport = own
		}
	}
	own := *h
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
