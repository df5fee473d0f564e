package acceptance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

type receiverState struct {
	URL                 *string
	State               string
	PausedBy            *string `json:"paused_by"`
	ConsecutiveFailures int64   `json:"consecutive_failures"`
	LastSuccessAt       *string `json:"last_success_at"`
	LastFailureAt       *string `json:"last_failure_at"`
	LastError           *string `json:"last_error"`
	Secrets             []struct {
		CreatedAt string  `json:"created_at"`
		ExpiresAt *string `json:"expires_at"`
	}
}

type testResult struct {
	ID         string
	URL        string
	Status     *int
	Error      *string
	DurationMS int64 `json:"duration_ms"`
	Response   string
}

func receiverOf(t *testing.T, s *apptest.Supplier) receiverState {
	t.Helper()
	a := s.Do(t, http.MethodGet, receiverPath, nil)
	want(t, a, http.StatusOK)
	return apptest.Decode[receiverState](t, a)
}

func pausedBy(r receiverState) string {
	if r.PausedBy == nil {
		return ""
	}
	return *r.PausedBy
}

// verifies reports whether the call carries a signature of the secret.
func verifies(t *testing.T, call apptest.Call, secret string) bool {
	t.Helper()
	parsed, err := webhook.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	_, err = webhook.Verify(call.Header, call.Body, call.At, parsed)
	return err == nil
}

func receiverRules(t *testing.T, h *apptest.Hub) {
	rule(t, "a supplier sets, changes and removes its own receiver", func(t *testing.T) {
		s := h.Supplier(t)
		none := receiverOf(t, s)
		if none.URL != nil || none.State != "none" || none.PausedBy != nil || none.ConsecutiveFailures != 0 ||
			none.LastSuccessAt != nil || len(none.Secrets) != 1 || none.Secrets[0].ExpiresAt != nil {
			t.Errorf("%+v", none)
		}
		receiver := apptest.NewReceiver(t, nil)
		set := apptest.Decode[receiverState](t, s.Do(t, http.MethodPut, receiverPath, object{"url": receiver.URL + "/"}))
		if set.State != "active" || *set.URL != receiver.URL {
			t.Errorf("%+v", set)
		}
		submit(t, s, nil)
		reaches(t, s, "delivered", 1)
		wait.Until(t, "the success is shown", func() bool { return receiverOf(t, s).LastSuccessAt != nil })
		wantEmpty(t, s.Do(t, http.MethodDelete, receiverPath, nil), 204)
		wantEmpty(t, s.Do(t, http.MethodDelete, receiverPath, nil), 204)
		if r := receiverOf(t, s); r.State != "none" || r.URL != nil {
			t.Errorf("%+v", r)
		}
	})
	rule(t, "an address with an international name is kept as the URI that is called", func(t *testing.T) {
		s := h.Supplier(t)
		want(t, s.Do(t, http.MethodPut, receiverPath, object{"url": "https://münchen.example:8443/füße"}), 200)
		if got := *receiverOf(t, s).URL; got != "https://xn--mnchen-3ya.example:8443/f%C3%BC%C3%9Fe" {
			t.Errorf("the address is %s", got)
		}
	})
	rule(t, "an address that is not one is a 400 that says why", func(t *testing.T) {
		s := h.Supplier(t)
		for _, address := range []any{"", "ftp://x", "x", "https://u:p@example.com", "https://example.com/#f",
			"https://example.com/?q", "https://", "https://ü\u0301\u200d.example", nil, 7} {
			p := wantProblem(t, s.Do(t, http.MethodPut, receiverPath, object{"url": address}), 400, "/url")
			if text, is := address.(string); is && text != "" && strings.Contains(p.Errors[0].Detail, text+" ") {
				t.Errorf("%v: the answer repeats the address", address)
			}
		}
		wantProblem(t, s.Do(t, http.MethodPut, receiverPath, object{}), 400, "/url")
	})
	rule(t, "a new secret signs together with the old one for the overlap, without overlap alone", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		rotate := func(body any) string {
			t.Helper()
			a := s.Do(t, http.MethodPost, receiverPath+"/rotate-secret", body)
			want(t, a, 200)
			return apptest.Decode[map[string]string](t, a)["webhook_secret"]
		}
		call := func() apptest.Call {
			t.Helper()
			before := len(receiver.Calls())
			submit(t, s, nil)
			wait.Until(t, "the receiver is called", func() bool { return len(receiver.Calls()) > before })
			return receiver.Calls()[before]
		}
		second := rotate(nil)
		if c := call(); !verifies(t, c, s.WebhookSecret) || !verifies(t, c, second) {
			t.Error("not both secrets sign during the overlap")
		}
		third := rotate(object{"overlap": "1h"})
		if secrets := receiverOf(t, s).Secrets; len(secrets) != 3 || secrets[0].ExpiresAt != nil ||
			secrets[1].ExpiresAt == nil || *secrets[1].ExpiresAt >= *secrets[2].ExpiresAt {
			t.Errorf("an earlier secret does not keep its own end: %s, %s", *secrets[1].ExpiresAt, *secrets[2].ExpiresAt)
		}
		fourth := rotate(object{"overlap": "0s"})
		if c := call(); !verifies(t, c, fourth) || verifies(t, c, third) || verifies(t, c, second) ||
			verifies(t, c, s.WebhookSecret) {
			t.Error("an old secret signs after it was ended")
		}
		if secrets := receiverOf(t, s).Secrets; len(secrets) != 1 {
			t.Errorf("%+v", secrets)
		}
		for _, overlap := range []any{"169h", "-1s", "soon", 7} {
			wantProblem(t, s.Do(t, http.MethodPost, receiverPath+"/rotate-secret", object{"overlap": overlap}), 400, "/overlap")
		}
	})
	rule(t, "while paused nothing is sent and nothing is lost; resume sends it in order", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		paused := apptest.Decode[receiverState](t, s.Do(t, http.MethodPost, receiverPath+"/pause", nil))
		if paused.State != "paused" || pausedBy(paused) != "supplier" {
			t.Fatalf("%+v", paused)
		}
		var ids []int64
		for range 3 {
			ids = append(ids, submit(t, s, nil))
			becomes(t, s, ids[len(ids)-1], "estimated") // the own endpoint goes on
		}
		reaches(t, s, "pending", 3)
		if moved := apptest.Decode[receiverState](t,
			s.Do(t, http.MethodPut, receiverPath, object{"url": receiver.URL + "/hooks"})); moved.State != "paused" {
			t.Errorf("a new address ended the pause: %+v", moved)
		}
		if n := len(receiver.Calls()); n != 0 {
			t.Fatalf("%d calls while paused", n)
		}
		resumed := apptest.Decode[receiverState](t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil))
		if resumed.State != "active" || resumed.PausedBy != nil {
			t.Errorf("%+v", resumed)
		}
		reaches(t, s, "delivered", 3)
		if n := len(receiver.Calls()); n != 3 {
			t.Errorf("%d calls", n)
		}
	})
	rule(t, "estimates of a deactivated supplier are sent when it is active again", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		apptest.MustCommand[object](t, h, "supplier", "deactivate", s.ID)
		becomes(t, s, submit(t, s, nil), "estimated") // its access token lives on
		reaches(t, s, "pending", 1)
		if n := len(receiver.Calls()); n != 0 {
			t.Fatalf("%d calls of a deactivated supplier's receiver", n)
		}
		apptest.MustCommand[object](t, h, "supplier", "activate", s.ID)
		reaches(t, s, "delivered", 1)
	})
	rule(t, "without a receiver pause, resume and test are a 409", func(t *testing.T) {
		s := h.Supplier(t)
		for _, what := range []string{"/pause", "/resume", "/test"} {
			wantProblem(t, s.Do(t, http.MethodPost, receiverPath+what, nil), 409)
		}
	})
	rule(t, "what the operator paused only the operator resumes", func(t *testing.T) {
		s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
		apptest.MustCommand[object](t, h, "supplier", "pause", s.ID)
		if r := receiverOf(t, s); r.State != "paused" || pausedBy(r) != "operator" {
			t.Fatalf("%+v", r)
		}
		wantProblem(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 409)
		if r := apptest.Decode[receiverState](t,
			s.Do(t, http.MethodPost, receiverPath+"/pause", nil)); pausedBy(r) != "operator" {
			t.Errorf("%+v", r)
		}
		apptest.MustCommand[object](t, h, "supplier", "resume", s.ID)
		if r := receiverOf(t, s); r.State != "active" {
			t.Errorf("%+v", r)
		}
	})
	rule(t, "a test call is signed, goes where deliveries go, is not stored and not counted, also while paused",
		func(t *testing.T) {
			receiver, status := switchable(t, 202)
			s := h.Supplier(t, "--webhook-url", receiver.URL+"/hooks")
			want(t, s.Do(t, http.MethodPost, receiverPath+"/pause", nil), 200)
			result := apptest.Decode[testResult](t, s.Do(t, http.MethodPost, receiverPath+"/test", nil))
			if result.Status == nil || *result.Status != 202 || result.Error != nil ||
				result.Response != "answer of the receiver" {
				t.Fatalf("%+v", result)
			}
			call := receiver.Calls()[0]
			if call.Path != "/hooks/api/material-requests/0/delivery-estimates" || !verifies(t, call, s.WebhookSecret) ||
				call.Header.Get("webhook-id") != result.ID ||
				!strings.Contains(string(call.Body), `"webhook.test"`) {
				t.Errorf("%s %s", call.Path, call.Body)
			}
			status.Store(500)
			for range 6 {
				if result := apptest.Decode[testResult](t,
					s.Do(t, http.MethodPost, receiverPath+"/test", nil)); *result.Status != 500 {
					t.Errorf("%+v", result)
				}
			}
			if r := receiverOf(t, s); r.ConsecutiveFailures != 0 || r.LastFailureAt != nil ||
				len(listDeliveries(t, s, "").Data) != 0 {
				t.Errorf("a test call was counted or stored: %+v", r)
			}
		})
	rule(t, "at most ten test calls a minute, over all replicas", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		for i := range 10 {
			want(t, h.DoAt(t, i, http.MethodPost, receiverPath+"/test", nil, "Authorization", "Bearer "+s.AccessToken()), 200)
		}
		refused := s.Do(t, http.MethodPost, receiverPath+"/test", nil)
		wantProblem(t, refused, 429)
		if refused.Header.Get("Retry-After") == "" || len(receiver.Calls()) != 10 {
			t.Errorf("Retry-After %q, %d calls", refused.Header.Get("Retry-After"), len(receiver.Calls()))
		}
	})
	rule(t, "failing begins with the fifth failure in a row and ends with the first success", func(t *testing.T) {
		receiver, status := switchable(t, 503)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		submit(t, s, nil)
		failures := int64(0)
		// four, unless a worker was stopped in one
		for _, a := range showDelivery(t, s, reaches(t, s, "dead", 1)[0].ID).Attempts {
			if a.Status != nil {
				failures++
			}
		}
		wait.Until(t, "the failures are counted",
			func() bool { return receiverOf(t, s).ConsecutiveFailures == failures })
		if r := receiverOf(t, s); r.State != "active" || r.LastFailureAt == nil ||
			!strings.HasPrefix(*r.LastError, "status 503: ") {
			t.Errorf("after %d failures: %+v", failures, r)
		}
		submit(t, s, nil)
		wait.Until(t, "the receiver is failing", func() bool { return receiverOf(t, s).State == "failing" })
		status.Store(200)
		submit(t, s, nil)
		wait.Until(t, "the receiver is active again", func() bool {
			r := receiverOf(t, s)
			return r.State == "active" && r.ConsecutiveFailures == 0 && r.LastSuccessAt != nil
		})
	})
	rule(t, "a 410 pauses the receiver", func(t *testing.T) {
		receiver, status := switchable(t, 410)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		submit(t, s, nil)
		wait.Until(t, "the service pauses the receiver",
			func() bool { return pausedBy(receiverOf(t, s)) == "service" })
		submit(t, s, nil)
		reaches(t, s, "pending", 1)
		status.Store(200)
		want(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200)
		reaches(t, s, "delivered", 1)
	})
	rule(t, "the event types have a schema, and an example that it takes", func(t *testing.T) {
		s := h.Supplier(t)
		a := s.Do(t, http.MethodGet, "/api/webhook-event-types", nil)
		want(t, a, 200)
		types := apptest.Decode[[]struct {
			Type, Description string
			Schema, Example   json.RawMessage
		}](t, a)
		if len(types) != 1 || types[0].Type != "material_request.estimated" || types[0].Description == "" {
			t.Fatalf("%s", a.Body)
		}
		decode := func(text []byte) any { return apptest.Decode[any](t, apptest.Answer{Body: text}) }
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("type.json", decode(types[0].Schema)); err != nil {
			t.Fatal(err)
		}
		schema, err := compiler.Compile("type.json")
		if err != nil {
			t.Fatal(err)
		}
		receiver := apptest.NewReceiver(t, nil)
		want(t, s.Do(t, http.MethodPut, receiverPath, object{"url": receiver.URL}), 200)
		submit(t, s, nil)
		reaches(t, s, "delivered", 1)
		for name, event := range map[string][]byte{"example": types[0].Example, "event": receiver.Calls()[0].Body} {
			if err := schema.Validate(decode(event)); err != nil {
				t.Errorf("the %s: %v", name, err)
			}
		}
	})
}

// TestReceiver_is_paused_after_failures_only holds the rule of WEBHOOK_PAUSE_AFTER, which is off by default.
func TestReceiver_is_paused_after_failures_only(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{Env: map[string]string{
				"WEBHOOK_RETRY_SCHEDULE": "100ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms,300ms", "WEBHOOK_PAUSE_AFTER": "1s",
			}})
			receiver, status := switchable(t, 503)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			begun := time.Now()
			submit(t, s, nil)
			wait.Until(t, "the service pauses the receiver",
				func() bool { return pausedBy(receiverOf(t, s)) == "service" })
			if took := time.Since(begun); took < time.Second {
				t.Errorf("paused after %s", took)
			}
			status.Store(200)
			want(t, s.Do(t, http.MethodPost, receiverPath+"/resume", nil), 200)
			reaches(t, s, "delivered", 1)
		})
	}
}

// TestOutage_ends_with_the_first_success_or_one_call holds that deliveries hours from their next attempt are sent when
// their receiver answers again.
func TestOutage_ends_with_the_first_success_or_one_call(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": "12h"}})
			const since = "2020-01-01T00:00:00Z"
			for _, ends := range []struct {
				by, path string
				body     any
				answer   int
			}{
				{by: "the first success of a failing receiver", path: requests, body: request(nextID(), nil), answer: 201},
				{by: "a recovery of what is undelivered", path: deliveriesPath + "/redeliver",
					body: object{"status": "undelivered", "since": since}, answer: 202},
				{by: "a recovery of what is pending", path: deliveriesPath + "/redeliver",
					body: object{"status": "pending", "since": since}, answer: 202},
				{by: "a resume", path: receiverPath + "/resume", answer: 200},
			} {
				rule(t, "what waits is sent by "+ends.by+", once", func(t *testing.T) {
					receiver, status := switchable(t, 500)
					s := h.Supplier(t, "--webhook-url", receiver.URL)
					for range 5 {
						submit(t, s, nil)
					}
					wait.Until(t, "all were tried and wait", func() bool {
						list := listDeliveries(t, s, "status=pending").Data
						return len(list) == 5 && !slices.ContainsFunc(list, func(d sentDelivery) bool {
							return d.AttemptCount != 1 || d.NextAttempt == nil ||
								*d.NextAttempt < time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
						})
					})
					wait.Until(t, "it is failing", func() bool { return receiverOf(t, s).State == "failing" })
					status.Store(200)
					want(t, s.Do(t, http.MethodPost, ends.path, ends.body), ends.answer)
					n := 5
					if ends.answer == 201 {
						n++
					}
					for _, d := range reaches(t, s, "delivered", n) {
						if d.AttemptCount > 2 {
							t.Errorf("%d attempts", d.AttemptCount)
						}
					}
					if calls := len(receiver.Calls()); calls != 5+n {
						t.Errorf("%d calls, want %d", calls, 5+n)
					}
				})
			}
		})
	}
}
