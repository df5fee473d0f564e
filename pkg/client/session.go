package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	tokenPath   = "/api/external-auth/token" //nolint:gosec // a path, no credential
	refreshPath = "/api/external-auth/refresh"
	revokePath  = "/api/external-auth/revoke"

	// renewBefore is how much life an access token must have left to be used.
	renewBefore = time.Minute
	// renewWithin bounds a renewal, which belongs to no single caller.
	renewWithin = time.Minute
)

// session holds the token pair and renews it, once for all callers that need it at the same moment.
type session struct {
	client *Client
	key    func() string // a function, so that no print of a Client shows it

	// mu guards what follows. Callers read the pair and begin a renewal; its goroutine alone writes a new pair.
	mu      sync.Mutex
	pair    pair
	renewal *renewal // in flight; nil otherwise
}

// pair is a token pair with the moments until which its tokens are used.
type pair struct {
	access, refresh           string
	useAccess, useRefreshTill time.Time
}

type renewal struct {
	done   chan struct{}
	access string // set before done is closed, as err is
	err    error
}

// tokenError is a failure to get an access token: the call itself was not made.
type tokenError struct{ error }

func (e *tokenError) Unwrap() error { return e.error }

func newSession(c *Client, key string) *session {
	return &session{client: c, key: func() string { return key }}
}

// token returns an access token that is fit for use. Who waited for a renewal uses its token, however short it lives:
// else an answer that comes late would have it ask again and again.
func (s *session) token(ctx context.Context) (string, error) {
	s.mu.Lock()
	if s.pair.access != "" && time.Now().Before(s.pair.useAccess) {
		defer s.mu.Unlock()
		return s.pair.access, nil
	}
	r := s.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		s.renewal = r
		go s.renew(context.WithoutCancel(ctx), r, s.pair)
	}
	s.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return "", &tokenError{ctx.Err()}
	}
	if r.err != nil {
		return "", &tokenError{r.err}
	}
	return r.access, nil
}

// reject reports that the service refused the access token: it is renewed before its time, by the API key when whole is
// true. Another caller may have renewed it already.
func (s *session) reject(access string, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pair.access != access {
		return
	}
	s.pair.access = ""
	if whole {
		s.pair.refresh = ""
	}
}

func (s *session) renew(ctx context.Context, r *renewal, old pair) {
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	fresh, err := s.fresh(ctx, old)
	s.mu.Lock()
	s.pair, s.renewal = fresh, nil // a refresh token that was tried is never tried again
	r.access, r.err = fresh.access, err
	s.mu.Unlock()
	close(r.done)
}

// fresh returns a new pair: by the refresh token, and by the API key when there is none, it is refused, or the answer
// was lost. Presenting a refresh token a second time would end the session.
func (s *session) fresh(ctx context.Context, old pair) (pair, error) {
	if old.refresh != "" && time.Now().Before(old.useRefreshTill) {
		if p, err := s.ask(ctx, refreshPath, refreshBody(old.refresh), http.Header{}); err == nil {
			return p, nil
		}
	}
	return s.ask(ctx, tokenPath, nil, http.Header{"X-Api-Key": {s.key()}})
}

// refreshBody returns the body of refresh and revoke.
func refreshBody(token string) []byte {
	body, _ := json.Marshal(map[string]string{"refreshToken": token}) // no text is refused
	return body
}

type pairBody struct {
	AccessToken      string
	RefreshToken     string
	ExpiresIn        int64
	RefreshExpiresIn int64
}

func (s *session) ask(ctx context.Context, path string, body []byte, header http.Header) (pair, error) {
	asked := time.Now() // the tokens' lives began after this moment
	var answer pairBody
	err := s.client.send(ctx, call{method: http.MethodPost, path: path}, body, header, func(text []byte) error {
		err := json.Unmarshal(text, &answer)
		if err == nil && (answer.AccessToken == "" || answer.ExpiresIn <= 0) {
			err = errors.New("it holds no token that can be used")
		}
		return err
	})
	if err != nil {
		return pair{}, err
	}
	life := time.Duration(answer.ExpiresIn) * time.Second
	return pair{
		access: answer.AccessToken, refresh: answer.RefreshToken,
		useAccess:      asked.Add(life - min(renewBefore, life/2)), // a token that lives shorter is used for half its life
		useRefreshTill: asked.Add(time.Duration(answer.RefreshExpiresIn) * time.Second),
	}, nil
}

// Revoke ends the client's session at the service, if there is one. The next call begins a new one.
func (c *Client) Revoke(ctx context.Context) error {
	c.session.mu.Lock()
	refresh := c.session.pair.refresh
	c.session.pair = pair{}
	c.session.mu.Unlock()
	if refresh == "" {
		return nil
	}
	k := call{method: http.MethodPost, path: revokePath, safe: true, status: http.StatusNoContent}
	return c.repeat(ctx, k, func() error { return c.send(ctx, k, refreshBody(refresh), http.Header{}, nil) })
}

// Ping is the answer of the service to a token.
type Ping struct {
	Supplier  Supplier `json:"supplier"`
	ExpiresIn int64    `json:"expires_in"` // seconds until the access token expires
}

// Supplier is who the client calls for.
type Supplier struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Ping checks that the service can be reached and takes the client's credentials. It needs no scope.
func (c *Client) Ping(ctx context.Context) (Ping, error) {
	return fetch[Ping](ctx, c, get("/api/external/ping", nil, "supplier"))
}
