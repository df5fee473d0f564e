package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const (
	deliveriesPath = "/api/webhook-deliveries"
	receiverPath   = "/api/webhook-receiver"
)

// sentDelivery is an item of the supplier's own log.
type sentDelivery struct {
	ID           string
	RequestID    int64  `json:"request_id"`
	EventType    string `json:"event_type"`
	Status       string
	AttemptCount int64     `json:"attempt_count"`
	NextAttempt  *string   `json:"next_attempt_at"`
	CreatedAt    time.Time `json:"created_at"`
	LastAttempt  *attempt  `json:"last_attempt"`
	Event        any
	Attempts     []attempt
}

type attempt struct {
	Number     int64
	StartedAt  time.Time `json:"started_at"`
	DurationMS *int64    `json:"duration_ms"`
	Status     *int
	Error      *string
	URL        *string
	Response   string
}

type deliveryPage struct {
	Data []sentDelivery
	Next string `json:"next_cursor"` // empty: null
}

func listDeliveries(t *testing.T, s *apptest.Supplier, query string) deliveryPage {
	t.Helper()
	a := s.Do(t, http.MethodGet, deliveriesPath+"?"+query, nil)
	want(t, a, http.StatusOK)
	return apptest.Decode[deliveryPage](t, a)
}

func requestsOf(sent []sentDelivery) []int64 {
	ids := make([]int64, len(sent))
	for i, d := range sent {
		ids[i] = d.RequestID
	}
	return ids
}

func showDelivery(t *testing.T, s *apptest.Supplier, id string) sentDelivery {
	t.Helper()
	a := s.Do(t, http.MethodGet, deliveriesPath+"/"+id, nil)
	want(t, a, http.StatusOK)
	return apptest.Decode[sentDelivery](t, a)
}

// reaches waits until the supplier has n deliveries of the status and returns them.
func reaches(t *testing.T, s *apptest.Supplier, status string, n int) []sentDelivery {
	t.Helper()
	var found deliveryPage
	wait.Until(t, fmt.Sprintf("%d deliveries are %s", n, status), func() bool {
		found = listDeliveries(t, s, "status="+status)
		return len(found.Data) == n
	})
	return found.Data
}

// switchable is a receiver that answers with a status that the test may change.
func switchable(t *testing.T, first int) (*apptest.Receiver, *atomic.Int64) {
	t.Helper()
	var status atomic.Int64
	status.Store(int64(first))
	return apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte("answer of the receiver"))
	}), &status
}

func deliveryRules(t *testing.T, h *apptest.Hub) {
	rule(t, "a supplier sees what goes to its receiver, newest first, and nothing of the own endpoint",
		func(t *testing.T) {
			receiver := apptest.NewReceiver(t, nil)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			ids := []int64{submit(t, s, nil), submit(t, s, nil), submit(t, s, nil)}
			reaches(t, s, "delivered", 3)
			for _, id := range ids {
				becomes(t, s, id, "estimated")
			}
			slices.Reverse(ids)
			all := listDeliveries(t, s, "")
			if !slices.Equal(requestsOf(all.Data), ids) || all.Next != "" {
				t.Fatalf("%+v", all)
			}
			d := all.Data[0]
			if d.EventType != "material_request.estimated" || d.AttemptCount != 1 || d.NextAttempt != nil ||
				d.LastAttempt == nil || *d.LastAttempt.Status != 200 ||
				d.LastAttempt.Number != 1 || d.LastAttempt.DurationMS == nil || d.LastAttempt.Error != nil {
				t.Errorf("%+v", d)
			}
		})
	rule(t, "deliveries follow next_cursor to null, each page at another replica, of another length", func(t *testing.T) {
		s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
		var ids []int64
		for range 6 {
			ids = append([]int64{submit(t, s, nil)}, ids...)
		}
		sent := reaches(t, s, "delivered", 6)
		var walked []int64
		cursor := ""
		for i, limit := range []int{1, 3, 2} {
			a := h.DoAt(t, i, http.MethodGet, fmt.Sprintf("%s?status=delivered&limit=%d%s", deliveriesPath, limit, cursor), nil,
				"Authorization", "Bearer "+s.AccessToken())
			want(t, a, 200)
			page := apptest.Decode[deliveryPage](t, a)
			if walked = append(walked, requestsOf(page.Data)...); len(page.Data) != limit || (page.Next == "") != (i == 2) {
				t.Fatalf("page %d: %+v", i+1, page)
			}
			cursor = "&cursor=" + page.Next
			if i == 0 { // a row that comes, or leaves the filter, meanwhile takes no other with it
				becomes(t, s, submit(t, s, nil), "estimated")
				want(t, s.Do(t, http.MethodPost, deliveriesPath+"/"+sent[0].ID+"/redeliver", nil), 202)
			}
		}
		if !slices.Equal(walked, ids) {
			t.Errorf("got %v, want %v", walked, ids)
		}
		a := apptest.Decode[map[string]any](t, h.Supplier(t).Do(t, http.MethodGet, deliveriesPath, nil))
		if len(a) != 2 || len(a["data"].([]any)) != 0 || a["next_cursor"] != nil {
			t.Errorf("a list of nothing is %v", a)
		}
	})
	rule(t, "a cursor of deliveries belongs to its supplier and its filters: any other is a 400 that names it",
		func(t *testing.T) {
			s, other := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL),
				h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
			first := submit(t, s, nil)
			for _, supplier := range []*apptest.Supplier{s, other} {
				submit(t, supplier, nil)
				submit(t, supplier, nil)
			}
			reaches(t, s, "delivered", 3)
			reaches(t, other, "delivered", 2)
			const since, until = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
			filters := []string{"", "&status=delivered", "&since=" + since, "&until=" + until,
				"&since=" + since + "&until=" + until}
			for i, filter := range filters {
				own := listDeliveries(t, s, "limit=1"+filter).Next
				if n := len(listDeliveries(t, s, "cursor="+own+filter).Data); n != 2 {
					t.Errorf("%d are behind the first of %q", n, filter)
				}
				mistyped := []byte(own)
				mistyped[len(own)/2] ^= 1 // of a letter or digit another one
				wrong := []string{string(mistyped), own[:len(own)-1], own + "&cursor=" + own, "",
					listDeliveries(t, other, "limit=1"+filter).Next, listDeliveries(t, s, "limit=1"+filters[(i+1)%len(filters)]).Next}
				for _, cursor := range wrong {
					wantProblem(t, s.Do(t, http.MethodGet, deliveriesPath+"?cursor="+cursor+filter, nil), 400, "cursor")
				}
				wantProblem(t, s.Do(t, http.MethodGet, fmt.Sprint(deliveriesPath, "?request_id=", first, "&cursor=", own, filter),
					nil), 400, "cursor")
				wantProblem(t, s.Do(t, http.MethodGet, requests+"?cursor="+own, nil), 400, "cursor")
			}
		})
	rule(t, "deliveries are found by status, request and time", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		first := submit(t, s, nil)
		reaches(t, s, "delivered", 1)
		submit(t, s, nil)
		latest := reaches(t, s, "delivered", 2)[0]
		at := url.QueryEscape(latest.CreatedAt.Format(time.RFC3339Nano))
		for query, n := range map[string]int64{
			"status=delivered": 2, "status=dead": 0, "status=pending": 0, "status=failed": 0,
			fmt.Sprint("request_id=", first): 1, "request_id=424242424242": 0,
			"since=" + at: 1, "until=" + at: 1, "since=" + at + "&until=" + at: 0, "status=delivered&since=" +
				at: 1, fmt.Sprint("status=delivered&request_id=", first): 1,
			"since=2020-01-01T00:00:00Z": 2, "until=2020-01-01T00:00:00-03:00": 0,
		} {
			if got := listDeliveries(t, s, query); int64(len(got.Data)) != n || got.Next != "" {
				t.Errorf("%s: %d, want %d", query, len(got.Data), n)
			}
		}
	})
	rule(t, "every violation of the filters is named", func(t *testing.T) {
		s := h.Supplier(t)
		a := s.Do(t, http.MethodGet, deliveriesPath+"?status=lost&request_id=01&since=yesterday&until=&limit=101&cursor=x",
			nil)
		wantProblem(t, a, 400, "status", "request_id", "since", "until", "limit", "cursor")
		wantProblem(t, s.Do(t, http.MethodGet, deliveriesPath+"?status=dead&status=dead&request_id=", nil), 400, "status",
			"request_id")
	})
	rule(t, "a delivery shows the event that was sent and every attempt with its answer, oldest first",
		func(t *testing.T) {
			receiver, _ := switchable(t, 503)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			submit(t, s, nil)
			d := showDelivery(t, s, reaches(t, s, "dead", 1)[0].ID)
			sent := receiver.Calls()
			if diff := cmp.Diff(apptest.Decode[any](t, apptest.Answer{Body: sent[0].Body}), d.Event); diff != "" {
				t.Errorf("the event is not what was sent (-sent +shown):\n%s", diff)
			}
			if len(d.Attempts) != 4 || len(sent) != 4 || d.ID != sent[0].Header.Get("webhook-id") {
				t.Fatalf("%d attempts, %d calls", len(d.Attempts), len(sent))
			}
			for i, a := range d.Attempts {
				if a.Number != int64(i+1) || a.Status == nil || *a.Status != 503 || a.Response != "answer of the receiver" ||
					!strings.Contains(said(a.Error), "failed to take the call") || a.DurationMS == nil {
					t.Errorf("attempt %d: %+v", i+1, a)
				}
			}
		})
	rule(t, "redeliver begins a new series under the same webhook-id, and tries a pending one now", func(t *testing.T) {
		receiver, status := switchable(t, 410)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		submit(t, s, nil)
		id := reaches(t, s, "failed", 1)[0].ID
		status.Store(200)
		want(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200)
		wantBody(t, s.Do(t, http.MethodPost, deliveriesPath+"/"+id+"/redeliver", nil), 202,
			object{"id": id, "status": "pending"})
		d := showDelivery(t, s, reaches(t, s, "delivered", 1)[0].ID)
		calls := receiver.Calls()
		if d.ID != id || len(d.Attempts) != 2 || calls[len(calls)-1].Header.Get("webhook-id") != id {
			t.Errorf("%+v", d)
		}
		want(t, s.Do(t, http.MethodPost, receiverPath+"/pause", nil), 200)
		for range 2 { // the second finds it pending
			want(t, s.Do(t, http.MethodPost, deliveriesPath+"/"+id+"/redeliver", nil), 202)
		}
		wantBody(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver",
			object{"status": "undelivered", "since": d.CreatedAt}), 202, object{"redelivered": 0}) // it is pending, and paused
		want(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200)
		if d = showDelivery(t, s, reaches(t, s, "delivered", 1)[0].ID); len(d.Attempts) != 3 {
			t.Errorf("%+v", d)
		}
		a := s.Do(t, http.MethodPost, deliveriesPath+"/"+id+"/redeliver", nil) // it was delivered and sent again just now
		if want(t, a, 429); a.Header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %v", a.Header)
		}
		wantBody(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver",
			object{"status": "delivered", "since": d.CreatedAt}), 202, object{"redelivered": 0})
	})
	rule(t, "without a receiver a redelivery waits for one", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		submit(t, s, nil)
		id := reaches(t, s, "delivered", 1)[0].ID
		wantEmpty(t, s.Do(t, http.MethodDelete, receiverPath, nil), 204)
		want(t, s.Do(t, http.MethodPost, deliveriesPath+"/"+id+"/redeliver", nil), 202)
		other := apptest.NewReceiver(t, nil)
		want(t, s.Do(t, http.MethodPut, receiverPath, object{"url": other.URL}), 200)
		wait.Until(t, "the new receiver gets it", func() bool { return len(other.Calls()) >= 1 })
		if got := other.Calls()[0].Header.Get("webhook-id"); got != id {
			t.Errorf("webhook-id %q", got)
		}
	})
	rule(t, "what was lost in an outage is recovered with one call", func(t *testing.T) {
		receiver, status := switchable(t, 410)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		resume := func() { want(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200) }
		submit(t, s, nil)
		first := reaches(t, s, "failed", 1)[0]
		failed := []sentDelivery{first}
		for n := range 4 {
			resume()
			submit(t, s, nil)
			failed = reaches(t, s, "failed", n+2)
		}
		status.Store(200)
		resume()
		since, until := first.CreatedAt.Add(time.Microsecond).Format(time.RFC3339Nano),
			failed[0].CreatedAt.Format(time.RFC3339Nano)
		wantBody(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver",
			object{"status": "failed", "since": since, "until": until}), 202, object{"redelivered": 3})
		reaches(t, s, "delivered", 3)
		wantBody(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver", object{"status": "failed", "since": since}), 202,
			object{"redelivered": 1})
		wantBody(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver", object{"status": "dead", "since": since}), 202,
			object{"redelivered": 0})
		reaches(t, s, "delivered", 4)
	})
	rule(t, "every violation of a recovery is named", func(t *testing.T) {
		s := h.Supplier(t)
		wantProblem(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver", object{}), 400, "/status", "/since")
		wantProblem(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver",
			object{"status": "lost", "since": "now", "until": "2026"}), 400, "/status", "/since", "/until")
		wantProblem(t, s.Do(t, http.MethodPost, deliveriesPath+"/redeliver", object{"status": "undelivered",
			"since": "2026-11-20T12:00:00Z", "until": "2026-11-20T12:59:59+01:00"}), 400, "/until")
	})
	rule(t, "another supplier's delivery and one to the own endpoint are a 404", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s, other := h.Supplier(t, "--webhook-url", receiver.URL), h.Supplier(t, "--webhook-url", receiver.URL)
		id := submit(t, s, nil)
		becomes(t, s, id, "estimated")
		reaches(t, s, "delivered", 1)
		for _, d := range apptest.MustCommand[[]object](t, h, "delivery", "list", "--supplier", s.ID) {
			caller, status := other, 404
			if d["destination"] == s.ID {
				want(t, s.Do(t, http.MethodGet, deliveriesPath+"/"+d["id"].(string), nil), 200)
			} else {
				caller = s
			}
			wantProblem(t, caller.Do(t, http.MethodGet, deliveriesPath+"/"+d["id"].(string), nil), status)
			wantProblem(t, caller.Do(t, http.MethodPost, deliveriesPath+"/"+d["id"].(string)+"/redeliver", nil), status)
		}
		if len(listDeliveries(t, other, "").Data) != 0 {
			t.Error("another supplier's deliveries are listed")
		}
	})
	rule(t, "no token is a 401, no scope a 403, both without a body", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "products")
		for _, call := range [][2]string{
			{"GET", deliveriesPath}, {"GET", deliveriesPath + "/x"}, {"POST", deliveriesPath + "/x/redeliver"},
			{"POST", deliveriesPath + "/redeliver"},
			{"GET", receiverPath}, {"PUT", receiverPath}, {"DELETE", receiverPath},
			{"POST", receiverPath + "/rotate-secret"}, {"POST", receiverPath + "/pause"},
			{"POST", receiverPath + "/resume"}, {"POST", receiverPath + "/test"}, {"GET", "/api/webhook-event-types"},
			{"POST", "/api/portal-sessions"},
		} {
			wantEmpty(t, h.Do(t, call[0], call[1], nil), 401)
			wantEmpty(t, s.Do(t, call[0], call[1], nil), 403)
		}
	})
	rule(t, "what a failed call says names no address", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		for address, says := range map[string]string{"http://127.0.0.1:1": "refused",
			"http://nowhere.invalid": "receiver's name"} {
			want(t, s.Do(t, http.MethodPut, receiverPath, object{"url": address}), 200)
			test := apptest.Decode[testResult](t, s.Do(t, http.MethodPost, receiverPath+"/test", nil))
			if test.Error == nil || !strings.Contains(*test.Error, says) || strings.ContainsAny(*test.Error, "0123456789") {
				t.Errorf("%s: %+v", address, test)
			}
		}
	})
}
