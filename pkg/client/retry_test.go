package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// started returns a service with a client that has its token already.
func started(t *testing.T) (*clienttest.Server, *client.Client) {
	t.Helper()
	s := clienttest.New(clienttest.Config{})
	c := s.Client()
	mustPing(t, c)
	return s, c
}

// safeCall and unsafeCall are one call of each kind.
func safeCall(ctx context.Context, c *client.Client) error {
	return c.CreateRequest(ctx, newRequest(1))
}

func unsafeCall(ctx context.Context, c *client.Client) error {
	_, err := c.Recover(ctx, client.Recovery{Status: client.Dead, Since: time.Unix(0, 0)})
	return err
}

func newRequest(id int64) client.NewRequest {
	return client.NewRequest{ID: id, ShopCode: "SP-0042", Materials: []client.Item{
		{MaterialID: 7, Material: "Shelf", SKU: "SHELF-90", Width: 90, Height: 30, Depth: new(25.5), Quantity: 4},
	}}
}

func TestRetry_of_what_may_pass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status       int
		safe, unsafe bool // whether a call that is safe to repeat, or not, is repeated
	}{
		{429, true, true}, {500, true, false}, {502, true, false}, {503, true, false}, {504, true, false},
		{400, false, false}, {403, false, false}, {404, false, false}, {409, false, false}, {413, false, false},
		{422, false, false}, {501, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			for kind, repeated := range map[string]bool{"safe": c.safe, "unsafe": c.unsafe} {
				s, hub := started(t)
				call := safeCall
				if kind == "unsafe" {
					call = unsafeCall
				}
				s.FailNext(2, c.status, 0)
				before := len(s.Calls())
				err := call(t.Context(), hub)
				if calls := len(s.Calls()) - before; repeated && (err != nil || calls != 3) || !repeated &&
					(err == nil || calls != 1) {
					t.Errorf("%d on a %s call: %d calls, %v", c.status, kind, calls, err)
				}
				s.Wait()
			}
		})
	}
}

func TestRetry_waits_longer_each_time_and_gives_up(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := started(t)
		var at []time.Time
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			at = append(at, time.Now())
			w.WriteHeader(http.StatusBadGateway)
			return true
		})
		if err := safeCall(t.Context(), c); !errors.Is(err, client.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		if len(at) != 5 {
			t.Fatalf("%d attempts, want 5", len(at))
		}
		for i := 1; i < len(at); i++ {
			wait, around := at[i].Sub(at[i-1]), time.Second<<(i-1)
			if wait < around*3/4 || wait > around*5/4 {
				t.Errorf("wait %d was %v, want %v, a quarter less or more", i, wait, around)
			}
		}
	})
}

func TestRetry_honours_Retry_After(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := started(t)
		s.FailNext(1, http.StatusServiceUnavailable, 20*time.Second)
		begun := time.Now()
		if err := safeCall(t.Context(), c); err != nil || time.Since(begun) != 20*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		s.FailNext(1, http.StatusTooManyRequests, time.Hour)
		begun = time.Now()
		err := safeCall(t.Context(), c)
		var answer *client.Error
		if !errors.As(err, &answer) || answer.RetryAfter != time.Hour || time.Since(begun) != 0 {
			t.Errorf("an hour is the caller's to wait: %v after %v", err, time.Since(begun))
		}
		s.Wait()
	})
}

func TestRetry_does_not_outlive_the_context(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := started(t)
		s.FailNext(100, http.StatusServiceUnavailable, 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		begun := time.Now()
		if err := safeCall(ctx, c); !errors.Is(err, client.ErrUnavailable) || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begun = time.Now()
		if err := safeCall(ctx, c); err == nil || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// lossy loses the answers of the first calls of a path, after or before the service had them.
type lossy struct {
	path  string
	lose  int
	early bool // the call is lost instead of the answer
	next  http.RoundTripper
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != l.path || l.lose == 0 {
		return l.next.RoundTrip(r)
	}
	l.lose--
	if l.early {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	response, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(&broken{})
	return nil, io.ErrUnexpectedEOF
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestRetry_after_a_lost_answer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call     func(context.Context, *client.Client) error
		path     string
		early    bool
		repeated bool
	}{
		"a request is made again: its id makes it one":      {safeCall, "/api/material-requests", false, true},
		"a recovery is not: it would send everything twice": {unsafeCall, "/api/webhook-deliveries/redeliver", false, false},
		"a recovery that never left is":                     {unsafeCall, "/api/webhook-deliveries/redeliver", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := clienttest.New(clienttest.Config{})
				hub, err := client.New(client.Config{BaseURL: "http://hub.test", APIKey: s.APIKey, HTTP: &http.Client{
					Transport: &lossy{path: c.path, lose: 1, early: c.early, next: handlerTransport{s}},
				}})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.call(t.Context(), hub); (err == nil) != c.repeated {
					t.Errorf("got %v", err)
				}
				s.Wait()
			})
		})
	}
}

// A firewall or a proxy may answer in the service's place: that is a lost answer, whatever its status promises.
func TestRetry_of_a_success_that_is_not_the_services(t *testing.T) {
	t.Parallel()
	const otherStatus = http.StatusNonAuthoritativeInfo
	first := func(c *client.Client, ctx context.Context) error {
		for _, err := range c.Requests(ctx, "") {
			return err
		}
		return nil
	}
	for name, one := range map[string]struct {
		call     func(*client.Client, context.Context) error
		status   int // of its success
		repeated bool
	}{
		"CreateRequest": {func(c *client.Client, ctx context.Context) error { return safeCall(ctx, c) }, 201, true},
		"Reestimate":    {func(c *client.Client, ctx context.Context) error { return c.Reestimate(ctx, 1) }, 202, false},
		"Redeliver":     {func(c *client.Client, ctx context.Context) error { return c.Redeliver(ctx, "m") }, 202, false},
		"Recover":       {func(c *client.Client, ctx context.Context) error { return unsafeCall(ctx, c) }, 202, false},
		"PostEstimates": {func(c *client.Client, ctx context.Context) error {
			return c.PostEstimates(ctx, webhook.Event{})
		}, 200, true},
		"DeleteReceiver": {(*client.Client).DeleteReceiver, 204, true},
		"Revoke":         {(*client.Client).Revoke, 204, true},
		"Requests":       {first, 200, true},
		"Request": {func(c *client.Client, ctx context.Context) (err error) {
			_, err = c.Request(ctx, 1)
			return err
		}, 200, true},
		"Wait": {func(c *client.Client, ctx context.Context) (err error) {
			_, err = c.Wait(ctx, 1)
			return err
		}, 200, true},
		"Select": {func(c *client.Client, ctx context.Context) (err error) {
			_, err = c.Select(ctx, 1, "e")
			return err
		}, 200, true},
		"Receiver": {func(c *client.Client, ctx context.Context) (err error) {
			_, err = c.Receiver(ctx)
			return err
		}, 200, true},
		"EventTypes": {func(c *client.Client, ctx context.Context) (err error) {
			_, err = c.EventTypes(ctx)
			return err
		}, 200, true},
		"CreatePortalSession": {func(c *client.Client, ctx context.Context) (err error) {
			_, err = c.CreatePortalSession(ctx)
			return err
		}, 201, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, body := range []string{"<html>Blocked</html>", "{}", "null", `{"data":null,"next_cursor":null}`} {
				for _, status := range []int{one.status, otherStatus} {
					if one.status == http.StatusNoContent && status == one.status {
						continue // it has no body
					}
					synctest.Test(t, func(t *testing.T) {
						s, c := started(t)
						s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
							w.WriteHeader(status)
							_, _ = io.WriteString(w, body)
							return true
						})
						before, want := len(s.Calls()), 1
						if one.repeated {
							want = 5
						}
						err := one.call(c, t.Context())
						if calls := len(s.Calls()) - before; err == nil || calls != want {
							t.Errorf("%d %s: %v after %d calls, want %d", status, body, err, calls, want)
						}
					})
				}
			}
		})
	}
}

func TestRetry_of_a_call_whose_token_could_not_be_fetched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New(clienttest.Config{})
		s.FailNext(2, http.StatusServiceUnavailable, time.Second)
		if err := unsafeCall(t.Context(), s.Client()); err != nil {
			t.Fatal(err)
		}
		wantCalls(t, s, map[string]int{tokenCall: 3, "POST /api/webhook-deliveries/redeliver": 1})
	})
}

type handlerTransport struct{ handler http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var w recorder
	w.header, w.status = http.Header{}, http.StatusOK
	h.handler.ServeHTTP(&w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(strings.NewReader(w.body.String())),
		Request: r}, nil
}

type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
