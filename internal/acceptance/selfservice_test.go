package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// hostile is what an ill-meaning or broken receiver may answer: HTML, terminal codes, NUL, no UTF-8, and far too much
// of it.
const hostile = "<script>alert(1)</script>\x1b[31m\x00\xff\u202e" + "é"

// selfServiceRules hold the forms and bounds of chapter 8, in addition to what deliveryRules and receiverRules show of
// its behaviour.
func selfServiceRules(t *testing.T, h *apptest.Hub) {
	rule(t, "a parameter of the list that is given twice, empty or unknown in value is named", func(t *testing.T) {
		s := h.Supplier(t)
		const at = "2026-11-21T12:00:00Z"
		for name, values := range map[string][2]string{
			"status": {"dead", "lost"}, "request_id": {"1", "1.0"}, "since": {at, "2026-11-21"},
			"until": {at, "0000-01-01T00:00:00Z"}, "limit": {"1", "0"},
		} {
			good, bad := name+"="+url.QueryEscape(values[0]), name+"="+url.QueryEscape(values[1])
			want(t, s.Do(t, http.MethodGet, deliveriesPath+"?"+good, nil), 200)
			for _, query := range []string{good + "&" + good, name + "=", bad} {
				wantProblem(t, s.Do(t, http.MethodGet, deliveriesPath+"?"+query, nil), 400, name)
			}
		}
	})
	rule(t, "a delivery under way shows the attempt that was begun last, which has not ended", func(t *testing.T) {
		release := make(chan struct{})
		receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			w.WriteHeader(http.StatusNoContent)
		})
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		submit(t, s, nil)
		var d sentDelivery
		wait.Until(t, "the list shows the call that hangs", func() bool {
			list := listDeliveries(t, s, "status=pending").Data
			if len(list) == 1 && list[0].LastAttempt != nil {
				d = list[0]
			}
			return d.LastAttempt != nil && d.LastAttempt.DurationMS == nil
		})
		if a := d.LastAttempt; a.Number != d.AttemptCount || a.Status != nil || a.Error != nil || a.StartedAt.IsZero() {
			t.Errorf("%d attempts, the last one %+v", d.AttemptCount, *a)
		}
		close(release)
		if a := reaches(t, s, "delivered", 1)[0].LastAttempt; a.DurationMS == nil || a.Status == nil || *a.Status != 204 {
			t.Errorf("%+v", a)
		}
	})
	rule(t, "an attempt without an answer has an error and no status; a delivery that waits has a next attempt",
		func(t *testing.T) {
			s := h.Supplier(t, "--webhook-url", "http://127.0.0.1:1")
			submit(t, s, nil)
			d := showDelivery(t, s, reaches(t, s, "dead", 1)[0].ID)
			for _, a := range append(d.Attempts, *d.LastAttempt) {
				if a.Status != nil || a.Error == nil || a.DurationMS == nil || a.Response != "" {
					t.Errorf("%+v", a)
				}
			}
			if d.NextAttempt != nil {
				t.Errorf("a dead delivery is tried at %s", *d.NextAttempt)
			}
			want(t, s.Do(t, http.MethodPost, receiverPath+"/pause", nil), 200)
			want(t, s.Do(t, http.MethodPost, deliveriesPath+"/"+d.ID+"/redeliver", nil), 202)
			if d := showDelivery(t, s, d.ID); d.NextAttempt == nil || d.Status != "pending" || len(d.Attempts) != 4 {
				t.Errorf("%+v", d)
			}
		})
	rule(t, "of an answer the first KiB is kept, as text, whatever its bytes are; no page takes it for its own",
		func(t *testing.T) {
			receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusGone)
				_, _ = w.Write([]byte(hostile + strings.Repeat("é", 1<<10)))
			})
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			submit(t, s, nil)
			d := showDelivery(t, s, reaches(t, s, "failed", 1)[0].ID)
			tested := apptest.Decode[testResult](t, s.Do(t, http.MethodPost, receiverPath+"/test", nil))
			for what, text := range map[string]string{"attempt": d.Attempts[0].Response, "test": tested.Response} {
				// a replaced byte takes three
				if !strings.HasPrefix(text, "<script>") || len(text) < 1000 || len([]byte(text)) > 1<<10+8 ||
					!utf8.ValidString(text) {
					t.Errorf("the %s's response has %d bytes: %.60q", what, len(text), text)
				}
			}
			a := visit(t, http.MethodGet, h.URL(0, "/portal/deliveries/"+d.ID), signIn(t, s))
			want(t, a, 200)
			if page := string(a.Body); strings.Contains(page, "<script>alert") ||
				!strings.Contains(page, "&lt;script&gt;alert") || strings.ContainsAny(page, "\x00\x1b") || !utf8.Valid(a.Body) {
				t.Error("the page repeats what the receiver said as it came")
			}
		})
	rule(t, "a supplier's name and a request's texts are text on every page, whatever they have", func(t *testing.T) {
		s := h.Supplier(t)
		name := `<img src=x onerror="alert(1)">` + "\u202eeman" + strings.Repeat("W", 180)
		apptest.MustCommand[object](t, h, "supplier", "update", s.ID, "--name", name)
		id := submit(t, s, object{"shop_code": `"><script>alert(2)</script>`, "comment": "<b>bold</b> \u202e",
			"materials": []object{item(object{"material": "</dl><script>alert(3)</script>"})}})
		cookie := signIn(t, s)
		for _, path := range []string{"", "/requests", fmt.Sprint("/requests/", id), "/deliveries", "/receiver",
			"/deliveries/<script>alert(4)", "/requests?status=<script>alert(5)"} {
			a := visit(t, http.MethodGet, h.URL(0, "/portal"+strings.ReplaceAll(path, "<script>", "%3Cscript%3E")), cookie)
			if page := string(a.Body); strings.Contains(page, "<script>alert") || strings.Contains(page, "<img src=x") ||
				strings.Contains(page, "<b>bold") || !strings.Contains(page, "&lt;img src=x") {
				t.Errorf("%s (%d) repeats what a receiver wrote as it came", path, a.Status)
			}
		}
	})
	rule(t, "a recovery takes delivered ones too, and nothing of another supplier or the own endpoint",
		func(t *testing.T) {
			receiver, status := switchable(t, 410)
			s, other := h.Supplier(t, "--webhook-url", receiver.URL), h.Supplier(t, "--webhook-url", receiver.URL)
			submit(t, other, nil)
			reaches(t, other, "failed", 1)
			status.Store(200)
			want(t, other.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200)
			for range 2 {
				becomes(t, s, submit(t, s, nil), "estimated") // the own endpoint's deliveries are delivered too
			}
			reaches(t, s, "delivered", 2)
			called := len(receiver.Calls())
			const since = "2020-01-01T00:00:00Z"
			wantBody(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver",
				object{"status": "delivered", "since": since, "until": "2999-12-31T23:59:59Z"}), 202, object{"redelivered": 2})
			wait.Until(t, "both are sent once more", func() bool { return len(receiver.Calls()) >= called+2 })
			reaches(t, s, "delivered", 2)
			wantBody(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver", object{"status": "failed", "since": since}), 202,
				object{"redelivered": 0})
			if d := reaches(t, other, "failed", 1)[0]; d.AttemptCount != 1 {
				t.Errorf("another supplier's delivery was sent again: %+v", d)
			}
		})
	rule(t, "what is pending when a receiver is removed is kept for a new one", func(t *testing.T) {
		s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
		want(t, s.Do(t, http.MethodPost, receiverPath+"/pause", nil), 200)
		id := submit(t, s, nil)
		becomes(t, s, id, "estimated")
		kept := reaches(t, s, "pending", 1)[0]
		wantEmpty(t, s.Do(t, http.MethodDelete, receiverPath, nil), 204)
		if r := receiverOf(t, s); r.State != "none" {
			t.Errorf("%+v", r)
		}
		reaches(t, s, "pending", 1)
		other := apptest.NewReceiver(t, nil)
		set := s.Do(t, http.MethodPut, receiverPath, object{"url": other.URL})
		want(t, set, 200)
		if r := apptest.Decode[receiverState](t, set); r.State != "paused" {
			t.Errorf("the pause did not stay: %+v", r)
		}
		want(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200)
		if d := reaches(t, s, "delivered", 1)[0]; d.ID != kept.ID || other.Calls()[0].Header.Get("webhook-id") != kept.ID {
			t.Errorf("%s was kept, %+v was sent", kept.ID, d)
		}
	})
	rule(t, "resume sends what waited in its order", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL, "--receiver-concurrency", "1")
		want(t, s.Do(t, http.MethodPost, receiverPath+"/pause", nil), 200)
		var paths []string
		for n := range 6 {
			paths = append(paths, estimatesPath(submit(t, s, nil)))
			reaches(t, s, "pending", n+1)
		}
		want(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200)
		reaches(t, s, "delivered", len(paths))
		for i, call := range receiver.Calls() {
			if call.Path != paths[i] {
				t.Errorf("call %d went to %s, want %s", i, call.Path, paths[i])
			}
		}
	})
	rule(t, "an overlap is from 0s to 168h and 24h when none is given; a secret is shown once", func(t *testing.T) {
		s := h.Supplier(t)
		rotate := func(body any) (a apptest.Answer, overlap time.Duration) {
			t.Helper()
			a = s.Do(t, http.MethodPost, receiverPath+"/rotate-secret", body)
			if a.Status != 200 {
				return a, 0
			}
			if a.Header.Get("Cache-Control") != "no-store" {
				t.Error("a secret may be stored on the way")
			}
			shown := s.Do(t, http.MethodGet, receiverPath, nil)
			if strings.Contains(string(shown.Body), "whsec_") {
				t.Error("a secret is shown again")
			}
			secrets := apptest.Decode[receiverState](t, shown).Secrets
			if len(secrets) == 1 {
				return a, 0
			}
			return a, moment(t, *secrets[1].ExpiresAt).Sub(moment(t, secrets[0].CreatedAt))
		}
		for _, c := range []struct {
			body    any
			overlap time.Duration
		}{{nil, 24 * time.Hour}, {object{}, 24 * time.Hour}, {object{"overlap": nil},
			24 * time.Hour}, {object{"overlap": "0s"}, 0}, {object{"overlap": "168h"}, 168 * time.Hour}} {
			a, overlap := rotate(c.body)
			want(t, a, 200)
			if overlap != c.overlap {
				t.Errorf("%v: both sign for %s, want %s", c.body, overlap, c.overlap)
			}
			rotate(object{"overlap": "0s"})
		}
		for _, overlap := range []any{"168h0m1s", "-1ns", "", "24", 24} {
			a, _ := rotate(object{"overlap": overlap})
			wantProblem(t, a, 400, "/overlap")
		}
	})
	rule(t, "a test call is made once, says what was wrong, and ends no failing", func(t *testing.T) {
		receiver, status := switchable(t, 503)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		for range 2 {
			submit(t, s, nil)
		}
		wait.Until(t, "the receiver is failing", func() bool { return receiverOf(t, s).State == "failing" })
		reaches(t, s, "dead", 2)
		wait.Until(t, "all its failures are counted",
			func() bool { return receiverOf(t, s).ConsecutiveFailures == int64(len(receiver.Calls())) })
		before, called := receiverOf(t, s), len(receiver.Calls())
		for _, answers := range []int64{200, 500} {
			status.Store(answers)
			result := apptest.Decode[testResult](t, s.Do(t, http.MethodPost, receiverPath+"/test", nil))
			if result.Status == nil || int64(*result.Status) != answers || result.DurationMS < 0 {
				t.Errorf("%+v", result)
			}
		}
		if r := receiverOf(t, s); r.State != "failing" || r.ConsecutiveFailures != before.ConsecutiveFailures ||
			len(receiver.Calls()) != called+2 {
			t.Errorf("%+v after %d test calls", r, len(receiver.Calls())-called)
		}
	})
	rule(t, "every route of the chapter takes the portal's session; changes need the page's header",
		func(t *testing.T) {
			receiver := apptest.NewReceiver(t, nil)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			submit(t, s, nil)
			sent := reaches(t, s, "delivered", 1)[0].ID
			cookie := signIn(t, s)
			for _, c := range []struct {
				method, path string
				body         any
				status       int
			}{
				{"GET", deliveriesPath, nil, 200},
				{"GET", deliveriesPath + "/" + sent, nil, 200},
				{"GET", receiverPath, nil, 200},
				{"GET", "/api/webhook-event-types", nil, 200},
				{"POST", deliveriesPath + "/" + sent + "/redeliver", nil, 202},
				{"POST", deliveriesPath + "/redeliver", object{"status": "dead", "since": "2020-01-01T00:00:00Z"}, 202},
				{"POST", receiverPath + "/test", nil, 200},
				{"POST", receiverPath + "/pause", nil, 200},
				{"POST", receiverPath + "/resume", nil, 200},
				{"POST", receiverPath + "/rotate-secret", object{"overlap": "1h"}, 200},
				{"PUT", receiverPath, object{"url": receiver.URL}, 200},
				{"DELETE", receiverPath, nil, 204},
			} {
				if c.method != http.MethodGet {
					wantEmpty(t, h.Do(t, c.method, c.path, c.body, "Cookie", cookie), 403)
				}
				a := h.Do(t, c.method, c.path, c.body, "Cookie", cookie, fromPage[0], fromPage[1])
				want(t, a, c.status)
				if a.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s %s: an answer to a cookie may be stored: %q", c.method, c.path, a.Header.Get("Cache-Control"))
				}
			}
		})
	rule(t, "a wrong method is a 405 with Allow and HEAD is served where GET is, on the pages too", func(t *testing.T) {
		s := h.Supplier(t)
		cookie := signIn(t, s)
		for path, allow := range map[string]string{receiverPath: "DELETE, GET, HEAD, PUT",
			"/portal/receiver": "GET, HEAD, POST", "/portal/receiver/pause": "POST", "/portal/deliveries": "GET, HEAD"} {
			a := visit(t, http.MethodPatch, h.URL(0, path), cookie)
			want(t, a, 405)
			if got := a.Header.Get("Allow"); !sameMethods(got, allow) {
				t.Errorf("%s allows %q, want %q", path, got, allow)
			}
		}
		for _, path := range []string{"", "/requests", "/deliveries", "/receiver"} {
			wantEmpty(t, visit(t, http.MethodHead, h.URL(0, "/portal"+path), cookie), 200)
		}
		want(t, visit(t, http.MethodGet, h.URL(0, "/portal/nowhere"), cookie), 404)
	})
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func sameMethods(a, b string) bool {
	set := func(text string) map[string]bool {
		methods := map[string]bool{}
		for _, method := range strings.Split(text, ",") {
			methods[strings.TrimSpace(method)] = true
		}
		return methods
	}
	return fmt.Sprint(set(a)) == fmt.Sprint(set(b))
}
