package materials_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	stored1   = `{"status":"estimated","id":1}`
	mayWrite  = "Bearer acme/products,estimates:write"
	mayNot    = "Bearer acme/products,estimates:writer"
	signature = webhook.HeaderSignature
)

func TestReceiveEstimates_stores_them_and_moves_the_request(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for i, before := range []materials.Status{materials.Enqueued, materials.Failed, materials.Estimated} {
			id := int64(i)
			p := newPipeline(t, db, nil)
			p.enqueue("acme", id)
			p.exec("UPDATE material_requests SET status = ?, failure = 'x' WHERE id = ?", before, id)
			p.now.Store(noon.Add(time.Minute).UnixMicro())
			sent := event("acme", id, noon, "e1", "e2")
			expect(t, p.deliver("msg_1", sent), 200, fmt.Sprintf(`{"status":"estimated","id":%d}`, id))
			r := p.row("acme", id)
			if r.Status != "estimated" || r.Failure != "" || r.UpdatedAt != noon.Add(time.Minute).UnixMicro() {
				t.Errorf("from %s the request became %+v", before, r)
			}
			if diff := cmp.Diff(marshal(sent.Data.Estimates), *r.Estimates); diff != "" {
				t.Errorf("stored estimates (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(marshal(sent.Data.Unavailable), *r.Unavailable); diff != "" {
				t.Errorf("stored unavailable services (-want +got):\n%s", diff)
			}
		}
	})
}

func TestReceiveEstimates_with_no_service_available_is_estimated_all_the_same(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		expect(t, p.deliver("msg_1", event("acme", 1, noon)), 200, stored1)
		if r := p.row("acme", 1); r.Status != "estimated" || *r.Estimates != "[]" {
			t.Errorf("the request became %s with %s", r.Status, *r.Estimates)
		}
	})
}

func TestReceiveEstimates_authentication(t *testing.T) {
	t.Parallel()
	body := marshal(event("acme", 1, noon, "e1"))
	other := webhook.NewSecret()
	signed := func(id string, at time.Time, secret webhook.Secret) []string {
		return []string{
			webhook.HeaderID, id, webhook.HeaderTimestamp, fmt.Sprint(at.Unix()), signature,
			webhook.Sign(id, at, []byte(body), secret),
		}
	}
	// Each case's headers; the service's secret is known only inside.
	for _, tt := range []struct {
		name      string
		headers   func(own webhook.Secret) []string
		want      int
		challenge string
	}{
		{"nothing", func(webhook.Secret) []string { return nil }, 401, "Bearer"},
		{"the service's signature", func(s webhook.Secret) []string { return signed("msg_1", noon, s) }, 200, ""},
		{"another's signature", func(webhook.Secret) []string { return signed("msg_1", noon, other) }, 401, "Bearer"},
		{"a signature of five minutes ago", func(s webhook.Secret) []string {
			return signed("msg_1", noon.Add(-5*time.Minute), s)
		}, 200, ""},
		{"an older signature", func(s webhook.Secret) []string { return signed("msg_1", noon.Add(-301*time.Second), s) },
			401, "Bearer"},
		{"a signature from the future", func(s webhook.Secret) []string {
			return signed("msg_1", noon.Add(301*time.Second), s)
		}, 401, "Bearer"},
		{"an id of 128 characters", func(s webhook.Secret) []string {
			return signed(strings.Repeat("aZ9_-xyz", 16), noon, s)
		}, 200, ""},
		{"an id of 129 characters", func(s webhook.Secret) []string { return signed(strings.Repeat("a", 129), noon, s) },
			401, "Bearer"},
		{"an id with a dot", func(s webhook.Secret) []string { return signed("msg.1", noon, s) }, 401, "Bearer"},
		{"an empty id", func(s webhook.Secret) []string { return signed("", noon, s) }, 401, "Bearer"},
		{"a token", func(webhook.Secret) []string { return []string{"Authorization", mayWrite} }, 200, ""},
		{"a token and an id", func(webhook.Secret) []string {
			return []string{"Authorization", mayWrite, webhook.HeaderID,
				"x"}
		}, 200, ""},
		{"a token and a bad id", func(webhook.Secret) []string {
			return []string{"Authorization", mayWrite, webhook.HeaderID,
				"a b"}
		}, 401, `Bearer error="invalid_token"`},
		{"a token and an empty id", func(webhook.Secret) []string {
			return []string{"Authorization", mayWrite,
				webhook.HeaderID, ""}
		}, 401, `Bearer error="invalid_token"`},
		{"a token and two ids", func(webhook.Secret) []string {
			return []string{"Authorization", mayWrite, webhook.HeaderID, "a", webhook.HeaderID, "a"}
		}, 401, `Bearer error="invalid_token"`},
		{"an unknown token", func(webhook.Secret) []string { return []string{"Authorization", "Bearer x"} }, 401,
			`Bearer error="invalid_token"`},
		{"a token without the scope", func(webhook.Secret) []string { return []string{"Authorization", mayNot} }, 403,
			`Bearer error="insufficient_scope"`},
		{"a bad signature with a good token", func(webhook.Secret) []string {
			return append(signed("msg_1", noon, other), "Authorization", mayWrite)
		}, 401, `Bearer error="invalid_token"`},
		{"an empty signature with a good token", func(webhook.Secret) []string {
			return []string{"Authorization", mayWrite, signature, ""}
		}, 401, `Bearer error="invalid_token"`},
		{"a good signature with a bad token", func(s webhook.Secret) []string {
			return append(signed("msg_1", noon, s), "Authorization", "Bearer x")
		}, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				p := newPipeline(t, db, nil)
				p.enqueue("acme", 1)
				got := p.call(http.MethodPost, estimatesPath(1), body, tt.headers(p.secret)...)
				expect(t, got, tt.want)
				if tt.want == 200 {
					p.expectStatus("acme", 1, materials.Estimated)
					return
				}
				p.expectStatus("acme", 1, materials.Enqueued)
				if got.Body.Len() > 0 {
					t.Errorf("the body is not empty: %s", got.Body)
				}
				if c := got.Header().Get("WWW-Authenticate"); c != tt.challenge {
					t.Errorf("WWW-Authenticate %q, want %q", c, tt.challenge)
				}
			})
		})
	}
}

func TestReceiveEstimates_by_token_only_for_the_supplier_itself(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("other", 1)
		post := func(supplierID string) int {
			return p.call(http.MethodPost, estimatesPath(1), marshal(event(supplierID, 1, noon, "e1")), "Authorization",
				mayWrite).Code
		}
		if got := post("other"); got != 404 {
			t.Errorf("another's request: %d, want 404", got)
		}
		if got := post("acme"); got != 404 {
			t.Errorf("an unknown request: %d, want 404", got)
		}
		p.expectStatus("other", 1, materials.Enqueued)
	})
}

func TestReceiveEstimates_precedence(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		forged := []string{webhook.HeaderID, "x", webhook.HeaderTimestamp, fmt.Sprint(noon.Unix()), signature, "v1,AAAA"}
		for _, tt := range []struct {
			name    string
			path    string
			body    string
			headers []string
			want    int
		}{
			{"authentication before media type", estimatesPath(1), "{", append(forged, "Content-Type", "text/plain"), 401},
			{"authentication before the path", estimatesPath(1) + "x", "{", nil, 404}, // no such route at all
			{"authentication before the id", "/api/material-requests/x/delivery-estimates", "{", nil, 401},
			{"permission before the body", estimatesPath(1), "{", []string{"Authorization", mayNot}, 403},
			{"body before business", estimatesPath(1), "{", []string{"Authorization", mayWrite}, 400},
			{"media type", estimatesPath(1), "{}", []string{"Authorization", mayWrite, "Content-Type", "text/plain"}, 415},
			{"size by token", estimatesPath(1), bigBody(), []string{"Authorization", mayWrite}, 413},
			{"size by signature", estimatesPath(1), bigBody(), forged, 413},
			{"an id in another spelling", "/api/material-requests/01/delivery-estimates", "{}",
				[]string{"Authorization", mayWrite}, 404},
		} {
			if got := p.call(http.MethodPost, tt.path, tt.body, tt.headers...); got.Code != tt.want {
				t.Errorf("%s: %d, want %d: %s", tt.name, got.Code, tt.want, got.Body)
			}
		}
		expect(t, p.deliverBody("msg_1", 1, "{}", "Content-Encoding", "gzip"), 415)
		expect(t, p.deliverBody("msg_1", 1, "{"), 400)
		expect(t, p.deliver("msg_1", event("acme", 1, noon)), 404)
	})
}

func TestReceiveEstimates_names_every_violation(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		estimate := func(fields string) string {
			return `{"type":"material_request.estimated","timestamp":"2026-11-20T12:00:00Z",
				"data":{"supplier_id":"acme","request_id":1,"shop_code":"s","estimates":[` + fields + `],"unavailable":[]}}`
		}
		all := func(at string, names ...string) []string {
			for i, name := range names {
				names[i] = at + name
			}
			return names
		}
		for _, tt := range []struct {
			name, body string
			want       []string
		}{
			{"an empty object", `{}`, []string{"/data", "/timestamp", "/type"}},
			{"empty data", `{"type":"x","timestamp":"yesterday","data":{}}`, []string{
				"/data/estimates", "/data/request_id", "/data/shop_code", "/data/supplier_id", "/data/unavailable", "/timestamp",
				"/type",
			}},
			{"an hour of one digit", strings.Replace(estimate(``), "T12:00:00Z", "T1:00:00Z", 1), []string{"/timestamp"}},
			{"nulls", `{"type":null,"timestamp":null,"data":null}`, []string{"/data", "/timestamp", "/type"}},
			{"wrong types and broken rules together",
				`{"type":1,"timestamp":"2026-11-20 12:00:00Z","data":{"supplier_id":" ","request_id":1.5,
				"shop_code":"s","estimates":{},"unavailable":[{"service":"","reason":7},{}]}}`, []string{
					"/data/estimates", "/data/request_id", "/data/supplier_id", "/data/unavailable/0/reason",
					"/data/unavailable/0/service",
					"/data/unavailable/1/reason", "/data/unavailable/1/service", "/timestamp", "/type",
				}},
			{"an empty estimate", estimate(`{}`),
				all("/data/estimates/0/", "carrier", "chargeable_weight_kg", "currency", "delivery_date",
					"dispatch_date", "estimate_id", "lead_time_days", "price_cents", "service", "valid_until", "volume_m3")},
			{"an estimate of bad values", estimate(`{"estimate_id":"","service":" ","carrier":"","price_cents":-1,
				"currency":"brl","lead_time_days":-1,"dispatch_date":"2026-02-30","delivery_date":"20261127",
				"chargeable_weight_kg":-0.1,"volume_m3":1e999,"valid_until":"9999-12-31T23:59:59-01:00"}`),
				all("/data/estimates/0/", "carrier", "chargeable_weight_kg", "currency", "delivery_date",
					"dispatch_date", "estimate_id", "lead_time_days", "price_cents", "service", "valid_until", "volume_m3")},
			{"another request than the path's", strings.Replace(estimate(``), `"request_id":1`, `"request_id":2`, 1),
				[]string{"/data/request_id"}},
			{"an id used twice", estimate(oneEstimate + "," + oneEstimate), []string{"/data/estimates/1/estimate_id"}},
			{"a delivery before the dispatch", estimate(strings.Replace(oneEstimate, "2026-11-27", "2026-11-22", 1)),
				[]string{"/data/estimates/0/delivery_date"}},
			{"a member of another case", strings.Replace(estimate(``), `"type"`, `"Type"`, 1), []string{"/type"}},
			{"a price that is not exact everywhere",
				estimate(strings.Replace(oneEstimate, `"price_cents":0`, `"price_cents":9007199254740992`, 1)),
				[]string{"/data/estimates/0/price_cents"}},
			{"a NUL", strings.Replace(estimate(``), `"s"`, `"s\u0000"`, 1), []string{"/data/shop_code"}},
			{"a null in an array", estimate(`null`), []string{"/data/estimates/0"}},
		} {
			got := p.deliverBody("msg_1", 1, tt.body)
			expect(t, got, 400)
			if diff := cmp.Diff(tt.want, pointers(t, got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%s", tt.name, diff, got.Body)
			}
		}
		p.expectStatus("acme", 1, materials.Enqueued)
	})
}

const oneEstimate = `{"estimate_id":"e1","service":"road","carrier":"c","price_cents":0,
	"currency":"BRL","lead_time_days":0,"dispatch_date":"2026-11-23","delivery_date":"2026-11-27",
	"chargeable_weight_kg":0,"volume_m3":0,"valid_until":"2026-11-27T12:00:00Z"}`

// Estimates that a worker of the service wrote need no second look at each member; those of others who have the secret
// get one.
func TestReceiveEstimates_of_a_worker_are_believed_by_its_proof_and_stay_in_their_event(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		proofs, err := caller.NewProofs("s")
		if err != nil {
			t.Fatal(err)
		}
		p := newPipeline(t, db, func(d *materials.Deps) { d.Proofs = proofs })
		p.enqueue("acme", 1)
		r := p.round("acme", 1)
		id, at := ownID(r), p.clock()
		body := `{"data":{"supplier_id":"acme","estimates":[{"estimate_id":"e1"}],"unavailable":[]}}`
		signed := webhook.Sign(id, at, []byte(body), p.secret)
		for _, tt := range []struct{ name, id, proof string }{
			{"no proof", id, ""}, {"a proof of another call", id, proofs.Of("v1,x", r.UID, r.Number)},
			{"no proof at all", id, "?"}, {"another id", theirID(r), proofs.Of(signed, r.UID, r.Number)},
		} {
			if got := p.deliverBody(tt.id, 1, body, caller.ProofHeader, tt.proof); got.Code != http.StatusBadRequest {
				t.Errorf("%s: status %d", tt.name, got.Code)
			}
		}
		for _, bad := range []string{`{}`, `{"data":{"supplier_id":"acme"}}`, `{"data":[]}`, `{`} {
			proof := proofs.Of(webhook.Sign(id, at, []byte(bad), p.secret), r.UID, r.Number)
			expect(t, p.deliverBody(id, 1, bad, caller.ProofHeader, proof), 400)
		}
		p.expectStatus("acme", 1, materials.Enqueued)
		expect(t, p.deliverBody(id, 1, body, caller.ProofHeader, proofs.Of(signed, r.UID, r.Number)), 200, stored1)
		if r := p.row("acme", 1); r.Status != "estimated" || r.Estimates != nil || r.Unavailable != nil {
			t.Errorf("the row is %+v", r)
		}
	})
}

func TestReceiveEstimates_of_a_worker_may_be_large_while_the_databases_clock_jumps(t *testing.T) {
	t.Parallel()
	address := databasetest.Postgres(t)
	first := databasetest.OpenURL(t, address, "")
	for _, statement := range []string{
		`CREATE SCHEMA skewed`, `CREATE TABLE skewed.clock AS SELECT 0::double precision AS ahead`,
		`CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT
			pg_catalog.clock_timestamp() + (SELECT make_interval(secs => ahead) FROM skewed.clock)'`,
		`DO 'BEGIN EXECUTE format($f$ALTER DATABASE %I SET search_path = public, pg_catalog$f$, current_database()); END'`,
	} {
		databasetest.Exec(t, first, statement)
	}
	db := databasetest.OpenURL(t, address, "") // its connections have the clock that the test moves
	proofs, err := caller.NewProofs("s")
	if err != nil {
		t.Fatal(err)
	}
	p := newPipeline(t, db, func(d *materials.Deps) { d.Proofs, d.Now = proofs, db.Now })
	p.enqueue("acme", 1)
	r := p.round("acme", 1)
	id, body := ownID(r), `{"data":{"supplier_id":"acme","estimates":[],"unavailable":[]}}`+strings.Repeat(" ", 17<<10)
	post := func(at time.Time, proof func(signed string) string) int {
		signed := webhook.Sign(id, at, []byte(body), p.secret)
		return p.call(http.MethodPost, estimatesPath(1), body, webhook.HeaderID, id, webhook.HeaderTimestamp,
			fmt.Sprint(at.Unix()), signature, signed, caller.ProofHeader, proof(signed)).Code
	}
	proven := func(signed string) string { return proofs.Of(signed, r.UID, r.Number) }
	before := time.Now()
	if got := post(before.Add(-time.Hour), proven); got != 413 {
		t.Errorf("while the clock goes well a call of another hour gets %d", got)
	}
	databasetest.Exec(t, db, `UPDATE skewed.clock SET ahead = 3600`)
	wait.Until(t, "the jump is known", func() bool { return db.ClockJumps() > 0 })
	if got := post(before, proven); got != 200 {
		t.Errorf("one by the other time gets %d", got)
	}
	if got := post(before, func(string) string { return "" }); got != 413 {
		t.Errorf("one that no worker proves gets %d", got)
	}
	if got := post(before.Add(-time.Hour), proven); got != 413 {
		t.Errorf("one by neither time gets %d", got)
	}
}

// A worker names its round; without that the delivery does, while it is there.
func TestReceiveEstimates_of_an_own_delivery_of_another_round_or_life_changes_nothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		proofs, err := caller.NewProofs("s")
		if err != nil {
			t.Fatal(err)
		}
		p := newPipeline(t, db, func(d *materials.Deps) { d.Proofs = proofs })
		p.enqueue("acme", 1)
		expect(t, p.deliverOwn(p.round("acme", 1), event("acme", 1, noon, "e1")), 200)
		expect(t, p.reestimate("acme", 1), 202)
		now, sent := p.round("acme", 1), marshal(event("acme", 1, noon, "e2"))
		former := round.Round{UID: now.UID + 1, Number: now.Number}
		earlier := round.Round{UID: now.UID, Number: now.Number - 1}
		const id = "msg_that_leads_nowhere"
		named := func(r round.Round) []string {
			signed := webhook.Sign(id, p.clock(), []byte(sent), p.secret)
			return []string{caller.ProofHeader, proofs.Of(signed, r.UID, r.Number)}
		}
		for _, tt := range []struct {
			name, id string
			proof    []string
		}{
			{"a worker's of an earlier round", id, named(earlier)},
			{"a worker's of a former life", id, named(former)},
			{"of an earlier round", ownID(earlier), nil},
			{"of a former life", ownID(former), nil},
		} {
			if got := p.deliverBody(tt.id, 1, sent, tt.proof...); got.Code != http.StatusOK {
				t.Errorf("%s: %d", tt.name, got.Code)
			}
			p.expectStatus("acme", 1, materials.Enqueued)
		}
		expect(t, p.deliverBody(id, 1, sent, named(now)...), 200)
		p.expectStatus("acme", 1, materials.Estimated)
	})
}

func TestReceiveEstimates_the_same_webhook_id_changes_nothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		p.enqueue("acme", 2)
		expect(t, p.deliver("msg_1", event("acme", 1, noon, "e1")), 200, stored1)
		expect(t, p.deliver("msg_1", event("acme", 1, noon.Add(time.Second), "e2")), 200, stored1)
		if diff := cmp.Diff([]string{"e1"}, p.row("acme", 1).estimateIDs()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		// It is remembered for its request only.
		expect(t, p.deliver("msg_1", event("acme", 2, noon, "e1")), 200)
		p.expectStatus("acme", 2, materials.Estimated)
	})
}

func TestReceiveEstimates_newer_ones_replace_and_older_ones_do_not(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		for i, step := range []struct {
			at   time.Duration
			id   string
			want string
		}{
			{0, "first", "first"}, {time.Microsecond, "newer", "newer"}, {0, "older", "newer"},
			{time.Microsecond, "of the same time", "of the same time"}, {-time.Hour, "much older", "of the same time"},
		} {
			expect(t, p.deliver(fmt.Sprintf("msg_%d", i), event("acme", 1, noon.Add(step.at), step.id)), 200, stored1)
			if diff := cmp.Diff([]string{step.want}, p.row("acme", 1).estimateIDs()); diff != "" {
				t.Errorf("after %q (-want +got):\n%s", step.id, diff)
			}
		}
	})
}

func TestReceiveEstimates_by_token_without_a_webhook_id_is_not_remembered(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		for _, id := range []string{"e1", "e2"} {
			got := p.call(http.MethodPost, estimatesPath(1), marshal(event("acme", 1, noon, id)), "Authorization", mayWrite)
			expect(t, got, 200, stored1)
			if diff := cmp.Diff([]string{id}, p.row("acme", 1).estimateIDs()); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		}
	})
}

func TestReceiveEstimates_after_a_selection(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		expect(t, p.deliver("msg_1", event("acme", 1, noon, "e1")), 200)
		expect(t, p.choose("acme", 1, "e1"), 200)
		newer := event("acme", 1, noon.Add(time.Second), "e2")
		expect(t, p.deliver("msg_2", newer), 409)
		expect(t, p.deliver("msg_2", newer), 409) // a refused event is not remembered
		expect(t, p.deliver("msg_1", newer), 200, stored1)
		expect(t, p.deliver("msg_3", event("acme", 1, noon.Add(-time.Second), "e3")), 200, stored1) // older: nothing changes
		if r := p.row("acme", 1); r.Status != "selected" || !cmp.Equal(r.estimateIDs(), []string{"e1"}) {
			t.Errorf("the request became %s with %v", r.Status, r.estimateIDs())
		}
	})
}

func TestReceiveEstimates_at_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		// a second api process
		other := newPipeline(t, db, func(d *materials.Deps) { d.Secrets = []webhook.Secret{p.secret} })
		other.secret = p.secret
		const requests, events = 8, 40
		for id := range int64(requests) {
			p.enqueue("acme", id)
		}
		// Of every request the same events, each twice; the one with the latest timestamp is to stay.
		atOnce(requests*events*2, func(i int) {
			id, n := int64(i%requests), (i/requests*7)%events
			api := []*pipeline{p, other}[i/(requests*events)]
			deliver := func() *httptest.ResponseRecorder {
				return api.deliver(fmt.Sprintf("msg_%d", n),
					event("acme", id, noon.Add(time.Duration(n)*time.Second), fmt.Sprintf("e%d", n)))
			}
			got := deliver()
			for got.Code == http.StatusServiceUnavailable { // on a slow machine its turn at the row did not come in time
				got = deliver()
			}
			if got.Code != http.StatusOK {
				t.Errorf("event %d of request %d: %d %s", n, id, got.Code, got.Body)
			}
		})
		for id := range int64(requests) {
			if diff := cmp.Diff([]string{fmt.Sprintf("e%d", events-1)}, p.row("acme", id).estimateIDs()); diff != "" {
				t.Errorf("request %d (-want +got):\n%s", id, diff)
			}
		}
	})
}

func TestReceiveEstimates_after_Close_is_unavailable(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		p.Close()
		got := p.deliver("msg_1", event("acme", 1, noon, "e1"))
		expect(t, got, 503)
		if got.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
}

func TestWebhookIDs_that_a_request_remembers_are_bounded_and_the_newest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		id := func(n int) string { return fmt.Sprintf("%0128d", n) }
		const n = 200
		for i := range n {
			expect(t, p.deliver(id(i), event("acme", 1, noon.Add(time.Duration(i)*time.Second), fmt.Sprint("e", i))), 200)
		}
		for _, again := range []int{n - 1, n - 100} {
			expect(t, p.deliver(id(again), event("acme", 1, noon.Add(5*time.Minute), "changed")), 200)
		}
		if got := p.row("acme", 1).estimateIDs(); !cmp.Equal(got, []string{fmt.Sprint("e", n-1)}) {
			t.Errorf("an id that was taken before changed the estimates to %v", got)
		}
		var size int
		err := db.Reader(t.Context()).Raw(`SELECT length(webhook_ids) FROM material_requests`).Scan(&size).Error
		if err != nil || size > 17<<10 {
			t.Errorf("%d bytes are remembered, %v", size, err)
		}
	})
}
