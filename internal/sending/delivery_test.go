package sending_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sending"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func TestEvent_reaches_the_own_endpoint_and_the_receiver_once_each_signed(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{})
		r.add(event("acme", 7, 1))
		r.add(event("acme", 7, 1)) // the same key is the same event
		r.settled()
		for _, to := range []struct {
			*receiver
			path   string
			secret webhook.Secret
		}{{r.own, "/api/material-requests/7/delivery-estimates", r.ownSecret}, {r.acme,
			"/base/api/material-requests/7/delivery-estimates", r.secret}} {
			calls := to.got()
			if len(calls) != 1 {
				t.Fatalf("%s was called %d times", to.URL, len(calls))
			}
			c := calls[0]
			id, err := webhook.Verify(c.header, c.body, time.Now(), to.secret)
			if err != nil || !strings.HasPrefix(id, "msg_") || c.path != to.path ||
				c.header.Get("Content-Type") != "application/json" || c.header.Get("X-Request-ID") != "trace-7" {
				t.Errorf("the call of %s is %+v: %v", c.path, c.header, err)
			}
			if !strings.Contains(string(c.body), `"request_id":7`) {
				t.Errorf("the body is %s", c.body)
			}
		}
	})
}

func TestAttempt_of_a_damaged_packed_event_fails_and_is_repeated_without_a_call(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{idle: true})
		r.add(event("acme", 1, 1))
		var stored []byte
		if err := db.From(t.Context()).Raw(`SELECT body FROM webhook_events`).Row().Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if stored[0] == '{' {
			t.Fatalf("the event is stored as %s", stored)
		}
		stored[len(stored)-1] ^= 1
		if err := db.From(t.Context()).Exec(`UPDATE webhook_events SET body = ?`, stored).Error; err != nil {
			t.Fatal(err)
		}
		r.start()
		r.settled()
		d := r.show("acme")
		if d.Status != deliveries.Dead || len(d.Attempts) != 3 || d.Attempts[0].Error == nil ||
			!strings.Contains(*d.Attempts[0].Error, "damaged") || len(r.acme.got()) > 0 {
			t.Errorf("%d calls, the delivery is %+v", len(r.acme.got()), d)
		}
	})
}

func TestAttempts_keep_their_webhook_id_and_sign_their_own_moment(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{acme: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}})
		r.add(event("acme", 1, 1))
		r.settled()
		calls := r.acme.got()
		if len(calls) != 3 {
			t.Fatalf("%d attempts", len(calls))
		}
		for _, c := range calls {
			at, _ := strconv.ParseInt(c.header.Get("webhook-timestamp"), 10, 64)
			if _, err := webhook.Verify(c.header, c.body, c.at, r.secret); err != nil ||
				c.header.Get("webhook-id") != calls[0].header.Get("webhook-id") ||
				c.at.Sub(time.Unix(at, 0)).Abs() > 2*time.Second {
				t.Errorf("the attempt's headers are %v: %v", c.header, err)
			}
		}
		d := r.show("acme")
		if d.Status != deliveries.Delivered || d.AttemptCount != 3 || len(d.Attempts) != 3 || *d.Attempts[0].Status != 503 ||
			*d.Attempts[2].Status != 200 || d.NextAttempt != nil {
			t.Errorf("the delivery is %+v", d)
		}
	})
}

func TestStatuses_of_answers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		var codes []int
		want := map[int64]deliveries.Status{}
		for code, is := range map[int]deliveries.Status{ // few that fail: five in a row make it wait a second each
			200: "delivered", 204: "delivered", 299: "delivered", 301: "dead", 401: "dead", 404: "dead", 429: "dead",
			503: "dead",
		} {
			codes = append(codes, code)
			want[int64(code)] = is
		}
		r := newRig(t, db, setup{acme: func(_ int, w http.ResponseWriter, request *http.Request) {
			code, _ := strconv.Atoi(strings.Split(request.URL.Path, "/")[4])
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			w.WriteHeader(code)
		}})
		for _, code := range codes {
			r.add(event("acme", int64(code), 1))
		}
		r.settled()
		for _, d := range r.list(deliveries.Filter{SupplierID: "acme"}) {
			attempts := int64(1)
			if want[d.RequestID] == deliveries.Dead {
				attempts = 3
			}
			if d.Destination == "acme" && (d.Status != want[d.RequestID] || d.AttemptCount != attempts) {
				t.Errorf("%d: %s after %d attempts, want %s", d.RequestID, d.Status, d.AttemptCount, want[d.RequestID])
			}
		}
		if events := r.ledger.noted(); len(events) != 0 {
			t.Errorf("a receiver's failures reached the ledger: %v", events)
		}
	})
}

func TestStatuses_of_the_own_endpoint_s_answers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		want := map[int64]deliveries.Status{200: "delivered", 204: "delivered", 301: "failed", 400: "failed", 401: "failed",
			404: "failed", 409: "failed", 410: "failed", 408: "dead", 425: "dead", 429: "dead", 500: "dead", 503: "dead"}
		r := newRig(t, db, setup{own: func(_ int, w http.ResponseWriter, request *http.Request) {
			code, _ := strconv.Atoi(strings.Split(request.URL.Path, "/")[3])
			w.WriteHeader(code)
		}})
		for code := range want {
			r.add(event("unknown", code, 1))
		}
		r.settled()
		for _, d := range r.list(deliveries.Filter{}) {
			if d.Status != want[d.RequestID] || (d.AttemptCount == 3) != (d.Status == deliveries.Dead) {
				t.Errorf("%d: %s after %d attempts, want %s", d.RequestID, d.Status, d.AttemptCount, want[d.RequestID])
			}
		}
	})
}

func TestReceiver_that_answers_410_is_paused_and_the_others_wait(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{acme: status(http.StatusGone)})
		r.add(event("acme", 1, 1))
		wait.Until(t, "it is paused", func() bool {
			state, err := r.ReceiverState(t.Context(), "acme")
			return err == nil && state.PausedBy == receivers.PausedByService &&
				strings.HasPrefix(state.LastError, "status 410: ")
		})
		r.add(event("acme", 2, 1))
		if d := r.list(deliveries.Filter{Receiver: "acme", Status: deliveries.Failed}); len(d) != 1 ||
			d[0].AttemptCount != 1 {
			t.Errorf("failed are %+v", d)
		}
		if d := r.list(deliveries.Filter{Receiver: "acme", Status: deliveries.Pending}); len(d) != 1 ||
			d[0].AttemptCount != 0 {
			t.Errorf("pending are %+v", d)
		}
	})
}

func TestOwnEndpoint_s_failure_fails_the_request_in_the_same_transaction(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{own: status(http.StatusConflict)})
		r.ledger.failWith(errors.New("the ledger is stuck"))
		r.add(event("acme", 3, 1))
		wait.Until(t, "the ledger is asked twice", func() bool { return len(r.ledger.noted()) > 1 })
		if s := r.statuses()["own"]; s != deliveries.Pending {
			t.Errorf("the delivery is %s although the ledger did not take part", s)
		}
		r.ledger.failWith(nil)
		wait.Until(t, "the delivery failed", func() bool { return r.statuses()["own"] == deliveries.Failed })
		if e := r.ledger.noted(); !strings.HasPrefix(e[0],
			"refused acme/3: the estimates were refused: status 409: ") {
			t.Errorf("the ledger was called with %q", e[0])
		}
	})
}

func TestAdd_in_a_transaction_that_is_rolled_back_sends_nothing_and_keeps_no_slot(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{deps: func(d *sending.Deps) { d.Concurrency = 1 }})
		err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
			if _, err := r.Add(ctx, []round.Outgoing{event("acme", 1, 1)}); err != nil {
				return err
			}
			return errRollback
		})
		if !errors.Is(err, errRollback) {
			t.Fatal(err)
		}
		r.add(event("acme", 2, 1))
		r.settled()
		for _, c := range append(r.own.got(), r.acme.got()...) {
			if !strings.Contains(c.path, "/2/") {
				t.Errorf("%s was called", c.path)
			}
		}
	})
}

func TestCrash_between_commit_and_sending_only_delays(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{idle: true}) // not running: it begins nothing
		for i := range 5 {
			r.add(event("acme", int64(i+1), 1))
		}
		other := newRig(t, db, setup{})
		other.settled()
		if len(other.own.got()) != 5 || len(other.acme.got()) != 5 {
			t.Errorf("%d and %d calls", len(other.own.got()), len(other.acme.got()))
		}
	})
}

func TestTwoDispatchers_share_the_work_and_send_nothing_twice(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a := newRig(t, db, setup{idle: true})
		b := newRig(t, db, setup{idle: true})
		b.suppliers.learn("acme", a.acme.URL, a.secret)
		const n = 60
		var events []round.Outgoing
		for i := range n {
			events = append(events, event("acme", int64(i+1), 1))
		}
		a.add(events...)
		a.start()
		b.start()
		a.settled()
		seen := map[string]int{}
		for _, c := range append(append(a.own.got(), b.own.got()...), a.acme.got()...) {
			seen[c.header.Get("webhook-id")]++
		}
		for id, times := range seen {
			if times != 1 {
				t.Errorf("%s was sent %d times", id, times)
			}
		}
		if len(seen) != 2*n {
			t.Errorf("%d of %d were sent", len(seen), 2*n)
		}
	})
}

func TestStop_waits_for_attempts_in_flight_and_cuts_off_what_outlasts_the_drain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		begun, release := make(chan string, 1000), make(chan struct{})
		r := newRig(t, db, setup{idle: true, deps: func(d *sending.Deps) {
			d.Drain, d.Timeout = 3*time.Second, time.Minute
		},
			own: func(_ int, _ http.ResponseWriter, _ *http.Request) { begun <- "own"; <-release },
			acme: func(_ int, _ http.ResponseWriter, request *http.Request) {
				begun <- "acme"
				<-request.Context().Done()
			}})
		stop := r.start()
		r.add(event("acme", 1, 1))
		for waiting := map[string]bool{"own": true, "acme": true}; len(waiting) > 0; {
			delete(waiting, <-begun)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		close(release)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		var cut, done int
		for _, d := range r.list(deliveries.Filter{}) {
			detail, err := r.Show(t.Context(), d.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range detail.Attempts {
				switch {
				case a.Error != nil && strings.Contains(*a.Error, "interrupted"):
					cut++
				case a.Status != nil && *a.Status == 200:
					done++
				default:
					t.Errorf("an attempt has no end: %+v", a)
				}
			}
		}
		if cut == 0 || done == 0 {
			t.Errorf("%d attempts were cut off and %d finished", cut, done)
		}
		if state, err := r.ReceiverState(t.Context(), "acme"); err != nil || state != (receivers.ReceiverState{}) {
			t.Errorf("a receiver that was only slow is %+v: %v", state, err)
		}
	})
}

func TestRetryAfter_is_honoured_up_to_the_longest_wait(t *testing.T) {
	t.Parallel()
	r := newRig(t, databasetest.Open(t, database.SQLite), setup{
		deps: func(d *sending.Deps) { d.Schedule = []time.Duration{time.Millisecond, time.Hour} },
		acme: func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "999999999999")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	})
	r.add(event("acme", 1, 1))
	wait.Until(t, "the first attempt is written down",
		func() bool { d := r.show("acme"); return len(d.Attempts) > 0 && d.Attempts[0].Status != nil })
	if wait := time.Until(*r.show("acme").NextAttempt); wait < 50*time.Minute || wait > time.Hour {
		t.Errorf("the next attempt is in %s", wait)
	}
}

func TestAnswers_hostile_ones_do_no_harm(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{acme: func(n int, w http.ResponseWriter, request *http.Request) {
			if n == 1 { // without an end
				w.WriteHeader(http.StatusInternalServerError)
				for request.Context().Err() == nil {
					if _, err := w.Write([]byte(strings.Repeat("x\x00\xff", 4096))); err != nil {
						return
					}
				}
				return
			}
			hijacked, _, err := http.NewResponseController(w).Hijack() // cut in the middle of its head
			if err == nil {
				fmt.Fprint(hijacked, "HTTP/1.1 200")
				_ = hijacked.Close()
			}
		}})
		r.add(event("acme", 1, 1))
		r.settled()
		d := failedThrice(t, r)
		a := d.Attempts[0]
		if a.Status == nil || *a.Status != 500 || len(a.Response) > 3*1024 || !strings.HasPrefix(a.Response, "x\x00\uFFFD") {
			t.Errorf("the endless answer is kept as %d bytes: %+v", len(a.Response), a)
		}
		namesNoAddress(t, r, d.Attempts[1:])
	})
}

func TestAnswer_without_a_beginning_is_given_up_after_the_timeout(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{deps: func(d *sending.Deps) { d.Timeout = 100 * time.Millisecond },
			acme: func(_ int, _ http.ResponseWriter, request *http.Request) { <-request.Context().Done() }})
		r.add(event("acme", 1, 1))
		r.settled()
		namesNoAddress(t, r, failedThrice(t, r).Attempts)
	})
}

func failedThrice(t *testing.T, r *rig) *deliveries.Detail {
	t.Helper()
	d := r.show("acme")
	if len(d.Attempts) != 3 || d.Status != deliveries.Dead {
		t.Fatalf("the delivery is %+v", d)
	}
	return d
}

func namesNoAddress(t *testing.T, r *rig, attempts []deliveries.Attempt) {
	t.Helper()
	for _, a := range attempts {
		if a.Error == nil || strings.Contains(*a.Error, r.acme.URL) {
			t.Errorf("the error is %v", a.Error)
		}
	}
}

func TestProof_goes_to_the_own_endpoint_alone_and_belongs_to_the_signature(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		proofs, err := caller.NewProofs("of this service's processes")
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, db, setup{deps: func(d *sending.Deps) { d.Proofs = proofs }})
		r.add(event("acme", 1, 1))
		r.settled()
		own, supplier := r.own.got()[0].header, r.acme.got()[0].header
		uid, number, ok := proofs.Holds(own.Get(webhook.HeaderSignature), own.Get(caller.ProofHeader))
		if want := event("acme", 1, 1).Round; !ok || uid != want.UID || number != want.Number {
			t.Errorf("the own endpoint's proof is %q: %d/%d", own.Get(caller.ProofHeader), uid, number)
		}
		if _, sent := supplier[caller.ProofHeader]; sent {
			t.Error("the supplier's receiver gets a proof")
		}
	})
}

func TestAnswer_with_a_location_that_cannot_be_read_is_an_answer_that_shows_nothing_of_it(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"/there%zz?key=K3Y", "http://[::1/?key=K3Y", "http://a:b/?key=K3Y", ":?key=K3Y"} {
		t.Run(location, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				r := newRig(t, db, setup{acme: func(_ int, w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", location)
					w.WriteHeader(http.StatusFound)
				}})
				to := receivers.Receiver{URL: r.acme.URL, Secrets: []webhook.Secret{r.secret}, Active: true}
				for call, a := range map[string]deliveries.Answer{
					"a test":         r.TestCall(t.Context(), "acme", "msg_test", to, []byte("{}")),
					"the operator's": sending.TryOperator(t.Context(), to, "msg_op", []byte("{}"), time.Now(), time.Minute),
				} {
					if a.Status != http.StatusFound || a.Err != nil || a.Location != "" {
						t.Errorf("%s: %+v", call, a)
					}
				}
				r.add(event("acme", 1, 1))
				r.settled()
				for _, a := range failedThrice(t, r).Attempts {
					if a.Status == nil || *a.Status != http.StatusFound || a.Error != nil && strings.Contains(*a.Error, "K3Y") {
						t.Errorf("the attempt is %+v", a)
					}
				}
			})
		})
	}
}
