package clienttest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

type receiver struct {
	url                      string
	failures                 int
	lastSuccess, lastFailure time.Time
	lastError                string
	secrets                  []secret    // the newest first
	pausedBy                 string      // empty: it is not paused
	tests                    []time.Time // of the last minute
}

type secret struct {
	webhook.Secret
	created, expires time.Time
}

const (
	failingFrom    = 5 // failures in a row
	testsAMinute   = 10
	longestOverlap = 168 * time.Hour
	mostSecrets    = 5 // that sign at a time
	maxAddress     = 2048
	dayOverlap     = "24h"
)

// selfService serves a supplier's own receiver.
type selfService struct{ *Server }

// live drops secrets whose overlap is over and returns the others; it needs the lock.
func (s *Server) live() []webhook.Secret {
	s.receiver.secrets = slices.DeleteFunc(s.receiver.secrets, func(one secret) bool {
		return !one.expires.IsZero() && !time.Now().Before(one.expires)
	})
	var list []webhook.Secret
	for _, one := range s.receiver.secrets {
		list = append(list, one.Secret)
	}
	return list
}

func (s selfService) receiverBody() answer {
	r := s.receiver
	s.live()
	state := "active"
	switch {
	case r.url == "":
		state = "none"
	case r.pausedBy != "":
		state = "paused"
	case r.failures >= failingFrom:
		state = "failing"
	}
	secrets := []map[string]*time.Time{}
	for _, one := range s.receiver.secrets {
		secrets = append(secrets, map[string]*time.Time{"created_at": new(one.created.UTC()),
			"expires_at": orNull(one.expires.UTC())})
	}
	return ok(map[string]any{
		"url": orNull(r.url), "state": state, "paused_by": orNull(r.pausedBy), "consecutive_failures": r.failures,
		"last_success_at": orNull(r.lastSuccess), "last_failure_at": orNull(r.lastFailure),
		"last_error": orNull(r.lastError), "secrets": secrets,
	})
}

// orNull returns the value, or null for the zero one.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func (s selfService) getReceiver(*http.Request) answer {
	return s.receiverBody()
}

func (s selfService) putReceiver(r *http.Request) answer {
	body, refused := readBody[struct {
		URL string `json:"url"`
	}](r, members("url", map[string]shape{"url": text("be an https address alone", isReceiver)}))
	if refused != nil {
		return *refused
	}
	if !strings.Contains(body.URL, "{id}") {
		body.URL = strings.TrimRight(body.URL, "/")
	}
	s.receiver.move(body.URL)
	s.sendPending(r.Context())
	return s.receiverBody()
}

// isReceiver reports whether the service takes the address; the fake calls loopback by http too.
func isReceiver(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Contains(address, "#") || strings.HasSuffix(u.Host, ":") || len(address) > maxAddress ||
		strings.ContainsAny(strings.ReplaceAll(address, "{id}", ""), "{}") || !strings.Contains(address, "{id}") &&
		(strings.Contains(address, "?") || strings.HasSuffix(strings.TrimRight(address, "/"), "/delivery-estimates")) {
		return false
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && port > 0
}

func (s selfService) deleteReceiver(*http.Request) answer {
	s.receiver.move("")
	return answer{status: http.StatusNoContent}
}

func (s selfService) pause(*http.Request) answer {
	if s.receiver.url == "" {
		return noReceiver()
	}
	s.receiver.pause("supplier")
	return s.receiverBody()
}

// pause pauses a receiver that is not paused.
func (r *receiver) pause(by string) { r.pausedBy = cmp.Or(r.pausedBy, by) }

// move has the receiver begin without failures at another address, or none. A pause stays, but for one of the service's
// when there is no receiver any more.
func (r *receiver) move(address string) {
	if address == r.url {
		return
	}
	*r = receiver{url: address, pausedBy: r.pausedBy, secrets: r.secrets, tests: r.tests}
	if address == "" && r.pausedBy == "service" {
		r.pausedBy = ""
	}
}

func (s selfService) resume(r *http.Request) answer {
	if s.receiver.url == "" {
		return noReceiver()
	}
	s.receiver.pausedBy = ""
	s.sendPending(r.Context())
	return s.receiverBody()
}

func noReceiver() answer { return refuse(http.StatusConflict, "You have no receiver.") }

func (s selfService) rotateSecret(r *http.Request) answer {
	if r.ContentLength == 0 {
		r.Body = io.NopCloser(strings.NewReader("{}"))
	}
	body, refused := readBody[struct {
		Overlap string `json:"overlap"`
	}](r, members("", map[string]shape{"overlap": text("be a duration from 0s to 168h", isDuration(longestOverlap))}))
	if refused != nil {
		return *refused
	}
	overlap, _ := time.ParseDuration(cmp.Or(body.Overlap, dayOverlap)) // it was checked
	end := time.Now().Add(overlap)
	for i := range s.receiver.secrets {
		if one := &s.receiver.secrets[i]; one.expires.IsZero() || overlap == 0 {
			one.expires = end // an earlier one keeps its own end
		}
	}
	fresh := secret{Secret: webhook.NewSecret(), created: time.Now()}
	s.receiver.secrets = append([]secret{fresh}, s.receiver.secrets...)
	s.live()
	s.receiver.secrets = s.receiver.secrets[:min(mostSecrets, len(s.receiver.secrets))]
	return answer{status: http.StatusOK, secret: true, body: map[string]string{"webhook_secret": fresh.Text()}}
}

func (s selfService) testReceiver(r *http.Request) answer {
	address, secrets := callURL(s.receiver.url, 0), s.live()
	s.receiver.tests = slices.DeleteFunc(s.receiver.tests,
		func(at time.Time) bool { return time.Since(at) >= time.Minute })
	switch {
	case s.receiver.url == "":
		return noReceiver()
	case len(s.receiver.tests) >= testsAMinute:
		return answer{status: http.StatusTooManyRequests, detail: "At most 10 test calls a minute.", retryAfter: time.Minute}
	}
	s.receiver.tests = append(s.receiver.tests, time.Now())
	id := newID()
	body, _ := json.Marshal(map[string]any{"type": webhook.TypeTest, "timestamp": time.Now().UTC(),
		"data": map[string]any{"supplier_id": s.SupplierID, "request_id": 0}})
	s.mu.Unlock()
	a := post(r.Context(), address, id, body, secrets)
	s.mu.Lock()
	return ok(map[string]any{"id": id, "url": a.URL, "status": orNull(a.Status), "error": orNull(a.Error),
		"duration_ms": a.duration,
		"response":    a.Response})
}

func newID() string { return "msg_" + strings.ToLower(rand.Text()) }

func (s selfService) eventTypes(*http.Request) answer {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return ok([]map[string]any{{
		"type": webhook.TypeEstimated, "description": "Delivery estimates of a material request.",
		"schema": map[string]any{"type": "object", "required": []string{"type", "timestamp", "data"}},
		"example": webhook.Event{Type: webhook.TypeEstimated, Timestamp: at, Data: webhook.Data{
			SupplierID: s.SupplierID, RequestID: 123, ShopCode: "SP-0042", Estimates: []webhook.Estimate{},
			Unavailable: []webhook.Unavailable{},
		}},
	}})
}

func (s selfService) portalSession(r *http.Request) answer {
	return answer{status: http.StatusCreated, secret: true, body: map[string]any{
		"url": "http://" + r.Host + "/portal?link=" + rand.Text(), "expires_at": time.Now().Add(5 * time.Minute).UTC(),
	}}
}

// post makes one signed call.
func post(ctx context.Context, address, id string, body []byte, secrets []webhook.Secret) attempt {
	a := attempt{StartedAt: time.Now().UTC()}
	a.URL, _, _ = strings.Cut(address, "?")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(string(body)))
	if err != nil {
		a.Error = err.Error()
		return a
	}
	now := time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(webhook.HeaderID, id)
	request.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(webhook.HeaderSignature, webhook.Sign(id, now, body, secrets...))
	return a.call(request)
}
