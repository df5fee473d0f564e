package acceptance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const refusedShop = "REFUSED" // whose estimates the way to the own endpoint refuses permanently

// operatorEvent is the body of a call to the operator's receiver.
type operatorEvent struct {
	Type      string
	Timestamp time.Time
	Data      struct {
		SupplierID   string  `json:"supplier_id"`
		SupplierName string  `json:"supplier_name"`
		Count        int64   `json:"count"`
		IDs          []any   `json:"ids"`
		LastError    *string `json:"last_error"`
		PausedBy     string  `json:"paused_by"`
	}
}

// operator is a receiver of operator events, which answers with its status; with 0 it does not answer.
type operator struct {
	*apptest.Receiver
	secret webhook.Secret
	status atomic.Int64
}

func newOperator(t *testing.T) *operator {
	o := &operator{secret: webhook.NewSecret()}
	o.status.Store(200)
	o.Receiver = apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		for o.status.Load() == 0 && r.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if status := int(o.status.Load()); status != 0 {
			w.WriteHeader(status)
		}
	})
	return o
}

func (o *operator) env() map[string]string {
	return map[string]string{"OPERATOR_WEBHOOK_URL": o.URL + "/hook?team=hub", "OPERATOR_WEBHOOK_SECRET": o.secret.Text()}
}

// received are the events of a supplier, each once, in the order in which they came first. Every call must be signed.
func (o *operator) received(t *testing.T, supplierID string) []operatorEvent {
	t.Helper()
	var events []operatorEvent
	bodies := map[string][]byte{}
	for _, c := range o.Calls() {
		id, err := webhook.Verify(c.Header, c.Body, c.At, o.secret)
		if err != nil {
			t.Fatalf("an operator event is not signed: %v", err)
		}
		var e operatorEvent
		if err := json.Unmarshal(c.Body, &e); err != nil || c.Path != "/hook" {
			t.Fatalf("%s %s: %v", c.Path, c.Body, err)
		}
		if earlier, seen := bodies[id]; seen {
			if !bytes.Equal(earlier, c.Body) {
				t.Errorf("%s changed: %s, %s", id, earlier, c.Body)
			}
			continue
		}
		if bodies[id] = c.Body; e.Data.SupplierID == supplierID {
			events = append(events, e)
		}
	}
	return events
}

// hears waits until the operator was notified of the supplier's nth event of the type.
func (o *operator) hears(t *testing.T, supplierID, kind string, nth int) operatorEvent {
	t.Helper()
	var found []operatorEvent
	wait.Until(t, fmt.Sprintf("%s number %d of %s", kind, nth, supplierID), func() bool {
		found = slices.DeleteFunc(o.received(t, supplierID), func(e operatorEvent) bool { return e.Type != kind })
		return len(found) >= nth
	})
	if len(found) > nth {
		t.Fatalf("%s came %d times: %+v", kind, len(found), found)
	}
	return found[nth-1]
}

// refusing is the way to the own endpoint; it refuses what is for refusedShop.
func refusing(t *testing.T) (address string, to *atomic.Pointer[url.URL]) {
	to = &atomic.Pointer[url.URL]{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to.Load()) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || to.Load() == nil || bytes.Contains(body, []byte(refusedShop)) {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, to
}

// minutePasses lets the minute of the events that sum up be over.
func minutePasses(t *testing.T, h *apptest.Hub, supplierID string, n int) {
	t.Helper()
	db := openDatabase(t, h)
	wait.Until(t, "what happened is in its events", func() bool {
		var counted int
		row := db.QueryRowContext(t.Context(),
			`SELECT coalesce(sum(count), 0) FROM operator_events
				WHERE attempts = 0 AND type IN ('delivery.dead', 'request.failed') AND supplier_id = '`+supplierID+`'`)
		if err := row.Scan(&counted); err != nil {
			t.Fatal(err)
		}
		return counted >= n
	})
	if _, err := db.ExecContext(t.Context(),
		`UPDATE operator_events SET at = at - 61000000, due_at = due_at - 61000000 WHERE attempts = 0 AND supplier_id = '`+
			supplierID+`'`); err != nil {
		t.Fatal(err)
	}
}

func TestOperator(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			o := newOperator(t)
			way, to := refusing(t)
			env := o.env()
			env["WEBHOOK_RETRY_SCHEDULE"], env["WEBHOOK_TIMEOUT"], env["OPERATOR_TOKEN"],
				env["ESTIMATES_WEBHOOK_BASE_URL"] = "200ms,200ms", "2s", operatorToken, way
			h := apptest.Start(t, stack, apptest.Options{LeastRights: stack == apptest.Production, Env: env})
			api, err := url.Parse(h.URL(0, ""))
			if err != nil {
				t.Fatal(err)
			}
			to.Store(api)
			operatorRules(t, h, o)
			night(t, h, o)
		})
	}
}

func operatorRules(t *testing.T, h *apptest.Hub, o *operator) {
	// not at the same time as the others: it kills what they use
	t.Run("a receiver that fails, is paused and recovers is notified of, once each over all replicas, and none is lost "+
		"by kill -9", func(t *testing.T) {
		receiver, status := switchable(t, 503)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		o.status.Store(0)
		for range 3 {
			submit(t, s, nil)
		}
		workers := h.Workers
		if h.Stack == apptest.Embedded {
			workers = h.APIs
		}
		wait.Until(t, "the operator was called", func() bool { return len(o.received(t, s.ID)) > 0 })
		for _, w := range workers {
			w.Kill()
		}
		for _, w := range workers {
			w.Restart()
		}
		reaches(t, s, "dead", 3)
		o.status.Store(200)
		failing := o.hears(t, s.ID, "receiver.failing", 1)
		if failing.Data.SupplierName != t.Name() || failing.Data.Count != 1 || len(failing.Data.IDs) != 0 ||
			failing.Data.LastError == nil || !strings.HasPrefix(*failing.Data.LastError, "status 503: ") {
			t.Errorf("%+v", failing)
		}
		minutePasses(t, h, s.ID, 3)
		dead := o.hears(t, s.ID, "delivery.dead", 1)
		var ids []any
		for _, d := range reaches(t, s, "dead", 3) {
			ids = append(ids, d.ID)
		}
		if dead.Data.Count != 3 || len(dead.Data.IDs) != 3 ||
			slices.ContainsFunc(dead.Data.IDs, func(id any) bool { return !slices.Contains(ids, id) }) ||
			!strings.HasPrefix(*dead.Data.LastError, "status 503: ") &&
				!strings.HasPrefix(*dead.Data.LastError, "interrupted") {
			t.Errorf("%+v, want %v", dead, ids)
		}
		if age := time.Since(dead.Timestamp); age < 0 || age > 10*time.Minute {
			t.Errorf("its time is %v", dead.Timestamp)
		}

		status.Store(200)
		submit(t, s, nil)
		reaches(t, s, "delivered", 1)
		if recovered := o.hears(t, s.ID, "receiver.recovered", 1); recovered.Data.SupplierName != t.Name() {
			t.Errorf("%+v", recovered)
		}
		want(t, s.Do(t, http.MethodPost, "/api/webhook-receiver/pause", nil), 200)
		if paused := o.hears(t, s.ID, "receiver.paused", 1); paused.Data.PausedBy != "supplier" {
			t.Errorf("%+v", paused)
		}
		if _, errOut, code := h.Command(t, "supplier", "pause", s.ID); code != 0 { // it is paused already
			t.Fatal(errOut)
		}
		h.Command(t, "supplier", "resume", s.ID)
		h.Command(t, "supplier", "pause", s.ID)
		if paused := o.hears(t, s.ID, "receiver.paused", 2); paused.Data.PausedBy != "operator" {
			t.Errorf("%+v", paused)
		}
	})
	rule(t, "failed requests are summed up by supplier", func(t *testing.T) {
		s, other := h.Supplier(t), h.Supplier(t)
		var ids []any
		for range 2 {
			id := submit(t, s, object{"shop_code": refusedShop})
			ids = append(ids, float64(id))
			if r := becomes(t, s, id, "failed"); said(r.Failure) !=
				"The delivery estimates were computed, and the delivery-estimates webhook refused them." {
				t.Errorf("its failure is %q", said(r.Failure))
			}
		}
		becomes(t, other, submit(t, other, object{"shop_code": refusedShop}), "failed")
		minutePasses(t, h, s.ID, 2)
		failed := o.hears(t, s.ID, "request.failed", 1)
		slices.SortFunc(failed.Data.IDs, func(a, b any) int { return cmp.Compare(a.(float64), b.(float64)) })
		if failed.Data.Count != 2 || !slices.Equal(failed.Data.IDs, ids) || failed.Data.LastError == nil ||
			!strings.Contains(*failed.Data.LastError, "418") {
			t.Errorf("%+v, want %v", failed.Data, ids)
		}
		for _, e := range o.received(t, s.ID) {
			if e.Type == "delivery.dead" { // an answer that is final makes a delivery failed, not dead
				t.Errorf("%+v", e)
			}
		}
		if got := o.received(t, other.ID); len(got) != 0 {
			t.Errorf("before its minute is over: %+v", got)
		}
	})
}

// It is not cut off after WEBHOOK_TIMEOUT alone, which may be longer than the 30 s that SIGTERM grants.
func TestStop_of_the_embedded_api_answers_its_callers_while_the_operator_s_receiver_hangs(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	o.status.Store(0)
	env := o.env()
	env["WEBHOOK_TIMEOUT"] = "60s"
	h := apptest.Start(t, apptest.Embedded, apptest.Options{Env: env})
	s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone) // the receiver is paused, and the operator notified
	}).URL)
	id := submit(t, s, nil)
	becomes(t, s, id, "estimated")
	wait.Until(t, "an event is on its way", func() bool { return len(o.Calls()) > 0 })
	if _, err := openDatabase(t, h).ExecContext(t.Context(), // and is not worked on
		`UPDATE material_requests SET status = 'enqueued', due_at = NULL`); err != nil {
		t.Fatal(err)
	}
	waited := make(chan apptest.Answer, 1)
	go func() {
		defer close(waited)
		waited <- s.Do(t, http.MethodGet, requestPath(id)+"?wait=60s", nil)
	}()
	if code := h.APIs[0].Stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	want(t, <-waited, http.StatusOK)
}
