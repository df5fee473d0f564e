package clienttest

import (
	"cmp"
	"context"
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

const (
	webhookTimeout = 15 * time.Second
	keptAnswer     = 1 << 10
)

type delivery struct {
	ID        string
	RequestID int64
	Status    string
	CreatedAt time.Time
	UpdatedAt time.Time
	Attempts  []attempt
	event     []byte
	inFlight  bool
	resent    time.Time // when it was sent again after it had been delivered
}

type attempt struct {
	Number    int
	StartedAt time.Time
	Status    int
	Error     string
	URL       string
	Response  string
	duration  int64
}

// deliver makes the delivery of the request's estimates; it needs the lock. Without a receiver there is none.
func (s *Server) deliver(ctx context.Context, r *request) {
	if s.receiver.url == "" {
		return
	}
	event, err := json.Marshal(webhook.Event{Type: webhook.TypeEstimated, Timestamp: time.Now().UTC(), Data: webhook.Data{
		SupplierID: s.SupplierID, RequestID: r.ID, ShopCode: r.ShopCode, Estimates: r.Estimates, Unavailable: r.Unavailable,
	}})
	if err != nil {
		panic("clienttest: " + err.Error())
	}
	now := time.Now().UTC()
	d := &delivery{ID: newID(), RequestID: r.ID, Status: "pending", CreatedAt: now, UpdatedAt: now, event: event}
	s.deliveries = append(s.deliveries, d)
	s.sendPending(ctx)
}

// sendPending begins an attempt of every pending delivery unless the receiver is paused; it needs the lock.
func (s *Server) sendPending(ctx context.Context) {
	if s.receiver.url == "" || s.receiver.pausedBy != "" {
		return
	}
	for _, d := range s.deliveries {
		if d.Status == "pending" && !d.inFlight {
			d.inFlight = true
			to, secrets := s.receiver.url, s.live()
			s.inBackground(ctx, func(ctx context.Context) {
				s.settle(d, to, post(ctx, callURL(to, d.RequestID), d.ID, d.event, secrets))
			})
		}
	}
}

// callURL returns where the call of a request goes.
func callURL(address string, requestID int64) string {
	id := strconv.FormatInt(requestID, 10)
	if strings.Contains(address, "{id}") {
		return strings.ReplaceAll(address, "{id}", id)
	}
	return address + "/api/material-requests/" + id + "/delivery-estimates"
}

// settle records the attempt and what it means for the delivery, and for the receiver if that is still at the address.
func (s *Server) settle(d *delivery, to string, a attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Number = len(d.Attempts) + 1
	d.Attempts, d.inFlight, d.UpdatedAt = append(d.Attempts, a), false, time.Now().UTC()
	r := &s.receiver
	if r.url != to {
		r = &receiver{}
	}
	if a.Status >= 200 && a.Status < 300 {
		d.Status, r.failures, r.lastSuccess = "delivered", 0, d.UpdatedAt
		return
	}
	r.failures++
	r.lastFailure, r.lastError = d.UpdatedAt, cmp.Or(a.Error, "HTTP status "+strconv.Itoa(a.Status))
	if d.Status = "dead"; a.Status == http.StatusGone {
		d.Status = "failed"
		r.pause("service")
	}
}

// call makes the call and returns the attempt with its outcome.
func (a attempt) call(request *http.Request) attempt {
	c := http.Client{Timeout: webhookTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := c.Do(request) //nolint:gosec // a test's own receiver
	if err == nil {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, keptAnswer)) // a broken answer's beginning is kept
		a.Status, a.Response = response.StatusCode, string(text)
	} else {
		a.Error = err.Error()
	}
	a.duration = time.Since(a.StartedAt).Milliseconds()
	return a
}

func (a attempt) body(whole bool) map[string]any {
	m := map[string]any{"number": a.Number, "started_at": a.StartedAt, "duration_ms": a.duration,
		"status": orNull(a.Status), "error": orNull(a.Error)}
	if whole {
		m["response"], m["url"] = a.Response, a.URL
	}
	return m
}

func (d *delivery) body() map[string]any {
	var last any
	if n := len(d.Attempts); n > 0 {
		last = d.Attempts[n-1].body(false)
	}
	var next *time.Time
	if d.Status == "pending" {
		next = &d.UpdatedAt
	}
	return map[string]any{
		"id": d.ID, "request_id": d.RequestID, "event_type": webhook.TypeEstimated, "status": d.Status,
		"attempt_count":   len(d.Attempts),
		"next_attempt_at": next, "created_at": d.CreatedAt, "updated_at": d.UpdatedAt, "last_attempt": last,
	}
}

func (s *Server) listDeliveries(r *http.Request) answer {
	filters := parameters{"status": isOneOf("pending", "delivered", "dead", "failed"), "since": isMoment,
		"until": isMoment,
		"request_id": func(text string) bool {
			n, err := strconv.ParseInt(text, 10, 64)
			return err == nil && strconv.FormatInt(n, 10) == text
		}}
	return listing(r, filters, func(q url.Values) (list []placed[map[string]any]) {
		since, _ := time.Parse(time.RFC3339, q.Get("since")) // they were checked, or are none
		until, _ := time.Parse(time.RFC3339, q.Get("until"))
		for place, d := range slices.Backward(s.deliveries) {
			if (!q.Has("status") || d.Status == q.Get("status")) && d.within(since, until) &&
				(!q.Has("request_id") || strconv.FormatInt(d.RequestID, 10) == q.Get("request_id")) {
				list = append(list, placed[map[string]any]{place, d.body()})
			}
		}
		return list
	})
}

func (d *delivery) within(since, until time.Time) bool {
	return !d.CreatedAt.Before(since) && (until.IsZero() || d.CreatedAt.Before(until))
}

// delivery returns the delivery of the path; it needs the lock.
func (s *Server) delivery(r *http.Request) (*delivery, *answer) {
	for _, d := range s.deliveries {
		if d.ID == r.PathValue("id") {
			return d, nil
		}
	}
	return nil, new(refuse(http.StatusNotFound, "There is no such delivery."))
}

func (s *Server) getDelivery(r *http.Request) answer {
	d, refused := s.delivery(r)
	if refused != nil {
		return *refused
	}
	body, attempts := d.body(), []map[string]any{}
	for _, a := range d.Attempts {
		attempts = append(attempts, a.body(true))
	}
	body["event"], body["attempts"] = json.RawMessage(d.event), attempts
	return ok(body)
}

func (s *Server) redeliver(r *http.Request) answer {
	d, refused := s.delivery(r)
	if refused != nil {
		return *refused
	}
	if rest := d.rest(); rest > 0 {
		return answer{status: http.StatusTooManyRequests, detail: "It was sent within the last minute.", retryAfter: rest}
	}
	d.again()
	s.sendPending(r.Context())
	return answer{status: http.StatusAccepted, body: map[string]string{"id": d.ID, "status": "pending"}}
}

// rest returns how long it is until a delivery may be sent again that was sent again after it had been delivered.
func (d *delivery) rest() time.Duration {
	if d.Status != "delivered" || d.resent.IsZero() {
		return 0
	}
	return max(0, time.Until(d.resent.Add(time.Minute)))
}

func (d *delivery) again() {
	now := time.Now().UTC()
	if d.Status == "delivered" {
		d.resent = now
	}
	d.Status, d.UpdatedAt = "pending", now
}

func (s *Server) recover(r *http.Request) answer {
	body, refused := readBody[struct {
		Status string    `json:"status"`
		Since  time.Time `json:"since"`
		Until  time.Time `json:"until"`
	}](r, members("status since", map[string]shape{"since": moment(), "until": moment(),
		"status": oneOf("undelivered", "pending", "dead", "failed", "delivered")}))
	if refused != nil {
		return *refused
	}
	if c := (&check{}); !body.Until.IsZero() && !body.Since.Before(body.Until) {
		c.at("/until", "must be after since")
		return *c.refused("The request body is not valid.")
	}
	n := 0
	for _, d := range s.deliveries {
		asked := d.Status == body.Status || body.Status == "undelivered" && d.Status != "delivered"
		kept := d.Status == "pending" && s.receiver.pausedBy != ""
		if asked && !kept && d.within(body.Since, body.Until) && d.rest() == 0 {
			d.again()
			n++
		}
	}
	s.sendPending(r.Context())
	return answer{status: http.StatusAccepted, body: map[string]int{"redelivered": n}}
}
