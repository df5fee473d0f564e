package sending

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	responseKept    = 1 << 10  // bytes of an answer that are written down
	responseRead    = 64 << 10 // bytes of an answer that are read, so that its connection can be used again
	responseHeaders = 64 << 10
	connectTimeout  = 10 * time.Second
	ownIdle         = 30 * time.Second // below the idle timeout of our own server
	receiverIdle    = 4 * time.Second  // below the 5 s after which widespread servers close idle connections
	pingAfter       = 5 * time.Second  // above it: a receiver gets pings during calls alone
	userAgent       = "supplyhub-webhooks/1"
)

// job is an attempt, or a test or operator call without a delivery. It is the scheduler's and the pool's from Send on,
// and nothing else changes it.
type job struct {
	deliveries.Begun
	target receivers.Receiver
	looked time.Time // since when a pause may have come that this worker did not see; monotonic
}

// sender makes one HTTP call for one attempt. It never retries by itself: every call is an attempt on record. It has a
// client for the operator's own addresses, which are trusted, and one for suppliers' receivers, whose dialer refuses
// the operator's network (ssrf.go); the two share no connections.
type sender struct {
	own, suppliers *retryablehttp.Client
	close          func()
	timeout        time.Duration
}

func newSender(deps Deps) *sender {
	own := newTransport(deps, ownIdle, &net.Dialer{Timeout: connectTimeout})
	suppliers := newTransport(deps, receiverIdle, guardedDialer(deps.AllowPrivate, deps.Deny))
	return &sender{
		own: newClient(own, deps.Proofs), suppliers: newClient(suppliers, caller.Proofs{}), timeout: deps.Timeout,
		close: func() { own.CloseIdleConnections(); suppliers.CloseIdleConnections() },
	}
}

// newTransport keeps enough connections for all attempts at once. It knows no proxy: behind one the dialer would not
// see where a call goes. An HTTP/2 connection that has gone silent is asked whether it is alive, as all calls take the
// same one and would keep a dead one from being idle. A receiver that is only slow has as long for that as for a call.
func newTransport(deps Deps, idle time.Duration, dialer *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConns: 4 * max(deps.Concurrency, 1), MaxIdleConnsPerHost: max(deps.Concurrency, 1), IdleConnTimeout: idle,
		TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: responseHeaders,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: deps.Timeout},
	}
}

// wire signs a call at the moment it goes out, where no client copies its headers any more. It hides
// CloseIdleConnections: after each failed call the library would close everybody's.
type wire struct {
	http.RoundTripper
	proofs caller.Proofs // that a call to the own endpoint is this service's
}

// callKey is the context's key of the call that a request makes.
type callKey struct{}

// call is a job that is sent at a given moment.
type call struct {
	job
	at time.Time
}

// RoundTrip may change the request: send made it for this call alone. A Location that cannot be read it takes away: the
// client would put an error in place of the answer, which shows the values of a query.
func (w wire) RoundTrip(request *http.Request) (*http.Response, error) {
	c := request.Context().Value(callKey{}).(call)
	h := request.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", userAgent)
	h.Set("X-Request-ID", c.TraceID)
	if parent, state := logctx.SplitTrace(c.TraceParent); parent != "" {
		h.Set("traceparent", parent)
		if state != "" {
			h.Set("tracestate", state)
		}
	}
	h.Set(webhook.HeaderID, c.ID)
	h.Set(webhook.HeaderTimestamp, strconv.FormatInt(c.at.Unix(), 10))
	signature := webhook.Sign(c.ID, c.at, c.Body, c.target.Secrets...)
	h.Set(webhook.HeaderSignature, signature)
	if c.Destination == deliveries.OwnEndpoint {
		if proof := w.proofs.Of(signature, c.Round.UID, c.Round.Number); proof != "" {
			h.Set(caller.ProofHeader, proof)
		}
	}
	response, err := w.RoundTripper.RoundTrip(request)
	if err == nil {
		if _, unreadable := response.Location(); unreadable != nil {
			response.Header.Del("Location")
		}
	}
	return response, err
}

// newClient returns a client that makes each call once: the schedule decides on retries, redirects and answers.
func newClient(transport *http.Transport, proofs caller.Proofs) *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.RetryMax = 0
	c.CheckRetry = func(context.Context, *http.Response, error) (bool, error) { return false, nil }
	c.ErrorHandler = retryablehttp.PassthroughErrorHandler
	c.HTTPClient = &http.Client{
		Transport:     wire{transport, proofs},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// send makes the call of the job, signed for the given moment. ctx bounds it. Whatever goes wrong is the answer: it is
// judged by the schedule and written down like a status. No answer holds more than the first KiB of the body.
func (s *sender) send(ctx context.Context, j job, at time.Time) deliveries.Answer {
	if !j.target.Usable() {
		return deliveries.Answer{Err: deliveries.ErrNoReceiver}
	}
	if len(j.target.Secrets) == 0 {
		return deliveries.Answer{Err: deliveries.ErrNoSecret}
	}
	var err error
	if j.Body, err = pack.Unpack(j.Body); err != nil {
		return deliveries.Answer{Err: fmt.Errorf("the event cannot be read: %w", err)}
	}
	request, err := retryablehttp.NewRequestWithContext(context.WithValue(ctx, callKey{}, call{j, at}), http.MethodPost,
		j.address(), j.Body)
	if err != nil {
		return deliveries.Answer{Err: errors.New("the receiver's address is not a valid URL")}
	}
	client := s.suppliers
	if j.Destination == deliveries.OwnEndpoint || j.Destination == operatorEvents {
		client = s.own
	}
	response, err := client.Do(request)
	if err != nil {
		return deliveries.Answer{Err: s.explain(ctx, err)}
	}
	defer response.Body.Close()
	a := deliveries.Answer{Status: response.StatusCode, RetryAfter: response.Header.Get("Retry-After"),
		Page: strings.Contains(response.Header.Get("Content-Type"), "html")}
	if to, err := response.Location(); err == nil {
		to.User, to.Fragment = nil, ""
		a.Location = caller.ShownURL(to.String())
	}
	if response.ContentLength == 0 {
		return a
	}
	// The rest of the body does not matter where it cannot be read: the status has come.
	a.Body, _ = io.ReadAll(io.LimitReader(response.Body, responseKept))
	_, _ = io.CopyN(io.Discard, response.Body, responseRead)
	return a
}

// address returns where the call goes: an operator's event to the address itself.
func (j job) address() string {
	if j.Destination == operatorEvents {
		return j.target.URL
	}
	return caller.CallURL(j.target.URL, j.Round.RequestID)
}

// shownAddress returns where the call goes, as a trace shows it. Of a supplier's address only the host is shown: its
// path may hold a secret of the supplier's.
func (j job) shownAddress() *url.URL {
	at, err := url.Parse(j.address())
	if err != nil {
		return &url.URL{}
	}
	path := at.Path
	if at, err := url.Parse(j.target.URL); err == nil && j.Destination != deliveries.OwnEndpoint {
		hidden := strings.TrimRight(at.Path, "/")
		below, known := strings.CutPrefix(path, hidden)
		switch {
		case !known:
			path = "/REDACTED"
		case hidden != "":
			path = "/REDACTED" + below
		}
	}
	return &url.URL{Scheme: at.Scheme, Host: at.Host, Path: path}
}

// explain returns the error without the address, which may hold a secret of the supplier's. A call that the drain cut
// off says so: its attempt is shown as interrupted.
func (s *sender) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStopping) {
		return cause
	}
	if ctx.Err() != nil {
		return fmt.Errorf(deliveries.Unanswered, s.timeout)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	if v, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && unknown && alone(v.UnverifiedCertificates) {
		return fmt.Errorf("%w: %w", deliveries.ErrIncomplete, err)
	}
	return err
}

// alone reports whether the issuer of the first certificate is not among them, itself included.
func alone(sent []*x509.Certificate) bool {
	return !slices.ContainsFunc(sent, func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawSubject, sent[0].RawIssuer)
	})
}
