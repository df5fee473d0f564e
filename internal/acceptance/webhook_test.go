package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func secret(t *testing.T, text string) webhook.Secret {
	t.Helper()
	first, _, _ := strings.Cut(text, ",")
	s, err := webhook.ParseSecret(first)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// event is a valid event for the request, made at the given time.
func event(s *apptest.Supplier, id int64, at time.Time, estimateIDs ...string) webhook.Event {
	e := webhook.Event{Type: webhook.TypeEstimated, Timestamp: at.UTC(), Data: webhook.Data{
		SupplierID: s.ID, RequestID: id, ShopCode: "SP-001", Estimates: []webhook.Estimate{},
		Unavailable: []webhook.Unavailable{{Service: "bulky", Reason: "too small"}},
	}}
	for _, estimate := range estimateIDs {
		e.Data.Estimates = append(e.Data.Estimates, webhook.Estimate{
			EstimateID: estimate, Service: "road", Carrier: "c", PriceCents: 100, Currency: "BRL", LeadTimeDays: 3,
			DispatchDate: "2026-11-23", DeliveryDate: "2026-11-25", ChargeableWeightKg: 1.5, VolumeM3: 0.1,
			ValidUntil: at.Add(time.Hour).UTC(),
		})
	}
	return e
}

// sign are the headers of a signed call.
func sign(t *testing.T, id string, at time.Time, body any, by webhook.Secret) []string {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return []string{webhook.HeaderID, id, webhook.HeaderTimestamp, fmt.Sprint(at.Unix()), webhook.HeaderSignature,
		webhook.Sign(id, at, text, by)}
}

func estimatesPath(id int64) string { return requestPath(id) + "/delivery-estimates" }

func estimatesRules(t *testing.T, h *apptest.Hub) {
	own := func(t *testing.T) webhook.Secret { t.Helper(); return secret(t, h.ServiceSecret(t)) }
	// settled is a request whose own estimates have arrived, so that nothing else changes it.
	settled := func(t *testing.T, s *apptest.Supplier) int64 {
		t.Helper()
		id := submit(t, s, nil)
		becomes(t, s, id, "estimated")
		return id
	}
	rule(t, "a signed event replaces the estimates; the same webhook-id again changes nothing", func(t *testing.T) {
		s := h.Supplier(t)
		id := settled(t, s)
		now := time.Now()
		first := event(s, id, now.Add(time.Second), "e1")
		for range 2 {
			a := h.Do(t, http.MethodPost, estimatesPath(id), first, sign(t, "m1-"+s.ID, now, first, own(t))...)
			wantBody(t, a, 200, object{"status": "estimated", "id": id})
		}
		second := event(s, id, now.Add(2*time.Second), "e2")
		want(t, h.Do(t, http.MethodPost, estimatesPath(id), second, sign(t, "m2", now, second, own(t))...), 200)
		want(t, h.Do(t, http.MethodPost, estimatesPath(id), first, sign(t, "m1-"+s.ID, now, first, own(t))...), 200)
		if r := read(t, s, id); len(r.Estimates) != 1 || r.Estimates[0]["estimate_id"] != "e2" {
			t.Fatalf("got %+v", r.Estimates)
		}
	})
	rule(t, "an older event is 200 and changes nothing", func(t *testing.T) {
		s := h.Supplier(t)
		id := settled(t, s)
		old := event(s, id, time.Now().Add(-time.Hour), "old")
		want(t, h.Do(t, http.MethodPost, estimatesPath(id), old, sign(t, "m1", time.Now(), old, own(t))...), 200)
		if r := read(t, s, id); len(r.Estimates) > 0 && r.Estimates[0]["estimate_id"] == "old" {
			t.Fatal("the older event replaced the estimates")
		}
	})
	rule(t, "after a selection new estimates are 409", func(t *testing.T) {
		s := h.Supplier(t)
		id := settled(t, s)
		want(t, selectEstimate(t, s, id, read(t, s, id).Estimates[0]["estimate_id"]), 200)
		late := event(s, id, time.Now().Add(time.Minute), "late")
		wantProblem(t, h.Do(t, http.MethodPost, estimatesPath(id), late, sign(t, "m1", time.Now(), late, own(t))...), 409)
	})
	rule(t, "no, foreign, old or altered signatures are 401 with an empty body", func(t *testing.T) {
		s := h.Supplier(t)
		id := settled(t, s)
		e := event(s, id, time.Now().Add(time.Second), "x")
		now := time.Now()
		good := sign(t, "m1", now, e, own(t))
		bad := map[string][]string{
			"none":               nil,
			"the supplier's own": sign(t, "m1", now, e, secret(t, s.WebhookSecret)),
			"six minutes old":    sign(t, "m1", now.Add(-6*time.Minute), e, own(t)),
			"six minutes ahead":  sign(t, "m1", now.Add(6*time.Minute), e, own(t)),
			"a dot in the id":    sign(t, "m.1", now, e, own(t)),
			"another id":         append([]string{webhook.HeaderID, "m2"}, good[2:]...),
			"another body's":     sign(t, "m1", now, event(s, id, now, "y"), own(t)),
			"an empty signature": {webhook.HeaderID, "m1", webhook.HeaderTimestamp, fmt.Sprint(now.Unix()),
				webhook.HeaderSignature, "v1,"},
			"a bad one with a good Bearer": append(sign(t, "m1", now, e, secret(t, s.WebhookSecret)), "Authorization",
				"Bearer "+h.Supplier(t, "--scopes", "estimates:write").AccessToken()),
		}
		for name, headers := range bad {
			if a := h.Do(t, http.MethodPost, estimatesPath(id), e, headers...); a.Status != 401 || len(a.Body) != 0 {
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
		}
	})
	rule(t, "a Bearer token with estimates:write is taken for its own supplier only", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "material-requests,estimates:write")
		other := h.Supplier(t, "--scopes", "material-requests,estimates:write")
		plain := h.Supplier(t)
		id := settled(t, s)
		e := event(s, id, time.Now().Add(time.Second), "e1")
		wantEmpty(t, plain.Do(t, http.MethodPost, estimatesPath(id), e), 403)
		wantProblem(t, other.Do(t, http.MethodPost, estimatesPath(id), e), 404)
		answer := s.Do(t, http.MethodPost, estimatesPath(id), e)
		wantBody(t, answer, 200, object{"status": "estimated", "id": id})
		wait.Until(t, "the request's line in the log names the supplier", func() bool {
			for line := range strings.Lines(h.APIs[0].Log()) {
				if strings.Contains(line, `"msg":"request"`) && strings.Contains(line, answer.Header.Get("X-Request-Id")) {
					return strings.Contains(line, s.ID)
				}
			}
			return false
		})
	})
	rule(t, "400 names every violation and a path that is not the body's request; 404 for an unknown request",
		func(t *testing.T) {
			s := h.Supplier(t)
			id := settled(t, s)
			post := func(path string, body any) apptest.Answer {
				return h.Do(t, http.MethodPost, path, body, sign(t, "m1", time.Now(), body, own(t))...)
			}
			wantProblem(t, post(estimatesPath(id), object{}), 400, "/type", "/timestamp", "/data")
			e := event(s, id, time.Now(), "e1")
			want(t, post(estimatesPath(id+1000000), e), 400)
			unknown := event(s, id+1000000, time.Now(), "e1")
			wantProblem(t, post(estimatesPath(id+1000000), unknown), 404)
		})
}

func webhookRules(t *testing.T, h *apptest.Hub) {
	rule(t, "a supplier's receiver gets the signed event by the Standard Webhooks specification", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		id := submit(t, s, nil)
		r := becomes(t, s, id, "estimated")
		wait.Until(t, "the receiver was called", func() bool { return len(receiver.Calls()) >= 1 })
		c := receiver.Calls()[0]
		if c.Method != http.MethodPost || c.Path != estimatesPath(id) ||
			!strings.HasPrefix(c.Header.Get("Content-Type"), "application/json") {
			t.Fatalf("got %s %s %v", c.Method, c.Path, c.Header)
		}
		if _, err := webhook.Verify(c.Header, c.Body, time.Now(), secret(t, s.WebhookSecret)); err != nil {
			t.Fatal(err)
		}
		var e webhook.Event
		if err := json.Unmarshal(c.Body, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type != webhook.TypeEstimated || e.Data.SupplierID != s.ID || e.Data.RequestID != id ||
			e.Data.ShopCode != "SP-001" || len(e.Data.Estimates) != len(r.Estimates) {
			t.Fatalf("got %+v", e)
		}
	})
	rule(t, "while a secret is rotated both sign", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		next := apptest.MustCommand[apptest.Supplier](t, h, "supplier", "rotate-webhook-secret", s.ID)
		submit(t, s, nil)
		wait.Until(t, "the receiver was called", func() bool { return len(receiver.Calls()) >= 1 })
		c := receiver.Calls()[0]
		for _, text := range []string{s.WebhookSecret, next.WebhookSecret} {
			if _, err := webhook.Verify(c.Header, c.Body, time.Now(), secret(t, text)); err != nil {
				t.Fatal(err)
			}
		}
	})
	rule(t, "everything but 2xx and 410 is retried with the same webhook-id and body until the schedule is used up, then "+
		"dead and redelivered; redirects are not followed", func(t *testing.T) {
		statuses := []int{500, 302, 401, 404}
		receiver := apptest.NewReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n < len(statuses) {
				w.Header().Set("Location", r.URL.String()+"/elsewhere")
				w.WriteHeader(statuses[n])
				_, _ = w.Write(bytes.Repeat([]byte("x"), 5000))
			}
		})
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		id := submit(t, s, nil)
		d := supplierDelivery(t, h, s, id, "dead")
		if len(d.Attempts) != 4 || len(receiver.Calls()) != 4 {
			t.Fatalf("%d attempts, %d calls, want 4", len(d.Attempts), len(receiver.Calls()))
		}
		for i, c := range receiver.Calls() {
			if c.Header.Get(webhook.HeaderID) != d.ID || !bytes.Equal(c.Body, receiver.Calls()[0].Body) {
				t.Errorf("call %d has the id %s", i, c.Header.Get(webhook.HeaderID))
			}
			if a := d.Attempts[i]; a.Number != i+1 || a.Status == nil || *a.Status != statuses[i] || len(a.Response) != 1024 {
				t.Errorf("attempt %+v", a)
			}
		}
		if r := read(t, s, id); r.Status != "estimated" {
			t.Errorf("the receiver's failure made the request %s", r.Status)
		}
		apptest.MustCommand[object](t, h, "delivery", "redeliver", d.ID)
		d = supplierDelivery(t, h, s, id, "delivered")
		if len(d.Attempts) != 5 || receiver.Calls()[4].Header.Get(webhook.HeaderID) != d.ID {
			t.Fatalf("got %+v", d)
		}
	})
	rule(t, "after a 410 the delivery is failed and the receiver paused until it is resumed", func(t *testing.T) {
		receiver, status := switchable(t, http.StatusGone)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		d := supplierDelivery(t, h, s, submit(t, s, nil), "failed")
		if len(d.Attempts) != 1 || len(receiver.Calls()) != 1 {
			t.Fatalf("%d attempts, %d calls, want 1", len(d.Attempts), len(receiver.Calls()))
		}
		r := apptest.Decode[receiverState](t, s.Do(t, http.MethodGet, receiverPath, nil))
		if r.State != "paused" || r.PausedBy == nil || *r.PausedBy != "service" {
			t.Errorf("the receiver is %+v", r)
		}
		waiting := submit(t, s, nil)
		becomes(t, s, waiting, "estimated")
		status.Store(200)
		want(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200)
		supplierDelivery(t, h, s, waiting, "delivered")
		if n := len(receiver.Calls()); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
	rule(t, "a receiver that never answers does not delay the own endpoint or another supplier", func(t *testing.T) {
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		hanging := apptest.NewReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
		healthy := apptest.NewReceiver(t, nil)
		slow, quick := h.Supplier(t, "--webhook-url", hanging.URL), h.Supplier(t, "--webhook-url", healthy.URL)
		var last int64
		for range 100 {
			last = submit(t, slow, nil)
		}
		id := submit(t, quick, nil)
		becomes(t, quick, id, "estimated")
		wait.Until(t, "the healthy receiver was called", func() bool { return len(healthy.Calls()) >= 1 })
		becomes(t, slow, last, "estimated")
	})
	rule(t, "the request id of the POST travels to the receiver and the worker's log", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		trace := "trace-" + s.ID
		want(t, s.Do(t, http.MethodPost, requests, request(nextID(), nil), "X-Request-Id", trace), 201)
		wait.Until(t, "the receiver was called", func() bool { return len(receiver.Calls()) >= 1 })
		if got := receiver.Calls()[0].Header.Get("X-Request-Id"); got != trace {
			t.Fatalf("X-Request-Id %q, want %q", got, trace)
		}
		wait.Until(t, "the worker logs it", func() bool {
			for _, p := range append(h.Workers, h.APIs...) {
				for line := range strings.Lines(p.Log()) {
					if strings.Contains(line, trace) && strings.Contains(line, "delivery") {
						return true
					}
				}
			}
			return false
		})
	})
}

type delivery struct {
	ID       string
	Status   string
	Attempts []struct {
		Number   int
		Status   *int
		Error    *string
		Response string
	}
}

// supplierDelivery waits until the request's delivery to the supplier's receiver has the status, and shows it.
func supplierDelivery(t *testing.T, h *apptest.Hub, s *apptest.Supplier, id int64, status string) delivery {
	t.Helper()
	var found string
	wait.Until(t, "the delivery is "+status, func() bool {
		for _, d := range apptest.MustCommand[[]struct{ ID, Status, Destination string }](t, h, "delivery", "list",
			"--supplier", s.ID, "--request", fmt.Sprint(id)) {
			if d.Destination != "own" && d.Status == status {
				found = d.ID
				return true
			}
		}
		return false
	})
	return apptest.MustCommand[delivery](t, h, "delivery", "show", found)
}
