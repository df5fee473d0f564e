package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/console"
	_ "github.com/supplyhub/supplyhub/internal/database/sqlite"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// unaudited are the routes that take something other than GET and change no supplier's access or receiver.
func unaudited() []string {
	return []string{
		"POST /api/external-auth/token", "POST /api/external-auth/refresh", // a session each: counted by metrics
		"POST /api/material-requests", "POST /api/material-requests/:id/re-estimate",
		"PATCH /api/material-requests/:id/selected-estimate", "POST /api/material-requests/:id/delivery-estimates",
		"POST /api/products/sync", "POST /pulse/scoreboard",
		"POST /api/webhook-receiver/test", "POST /portal/receiver/test",
		"POST /portal/requests/:id/choose", "POST /portal/requests/:id/re-estimate",
	}
}

// rig is an api without its listeners.
type rig struct {
	testing.TB
	app     *App
	log     *bytes.Buffer
	engine  *gin.Engine
	console http.Handler
	calls   map[string]bool // routes that were audited
	secrets []string
	hangUp  bool // callers of changes are gone before these begin
}

const operatorsToken = "an operator's token"

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, log: &bytes.Buffer{}, calls: map[string]bool{}, secrets: []string{operatorsToken}}
	cfg, log, err := Configure(map[string]string{"DATA_DIR": t.TempDir(), "WEBHOOK_ALLOW_PRIVATE": "true",
		"OPERATOR_TOKEN": operatorsToken, "LOG_FORMAT": "json"}, config.ForAPI, r.log)
	if err != nil {
		t.Fatal(err)
	}
	if r.app, err = Build(t.Context(), cfg, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.app.Close() })
	if err := r.app.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.app.openPortal(); err != nil {
		t.Fatal(err)
	}
	r.engine = httpapi.NewEngine(httpapi.EngineConfig{Log: log})
	r.app.routes(r.engine)
	if r.console, err = r.app.operatorHandler(nil, operatorLedger()); err != nil {
		t.Fatal(err)
	}
	return r
}

// call sends a call and wants so many audit lines of it.
func (r *rig) call(h http.Handler, route, path, body string, lines int, headers ...string) *httptest.ResponseRecorder {
	r.Helper()
	method, template, _ := strings.Cut(route, " ")
	if path == "" {
		path = template
	}
	request := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if r.hangUp && lines > 0 {
		ctx, gone := context.WithCancel(request.Context())
		gone()
		request = request.WithContext(ctx)
	}
	r.log.Reset()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	r.wantLines(route, lines)
	if lines > 0 && w.Code >= http.StatusBadRequest {
		r.Errorf("%s: %d %s", route, w.Code, w.Body)
	}
	return w
}

func (r *rig) wantLines(route string, want int) {
	r.Helper()
	for line := range strings.Lines(r.log.String()) {
		var l struct{ Level, Msg, Action, By, From string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			r.Fatal(err)
		}
		if l.Msg != "audit" {
			continue
		}
		want--
		r.calls[route] = true
		if l.Level != "INFO" || l.Action == "" || l.By == "" || l.From == "" ||
			!regexp.MustCompile(`supplier_id|"ids"|sign-`).MatchString(line) {
			r.Errorf("%s: %s", route, line)
		}
		for _, secret := range r.secrets {
			if secret != "" && strings.Contains(line, secret) {
				r.Errorf("%s shows a secret: %s", route, line)
			}
		}
	}
	if want != 0 {
		r.Errorf("%s: %d audit lines are missing:\n%s", route, want, r.log)
	}
}

func text(w *httptest.ResponseRecorder, member string) string {
	var body map[string]any
	_ = json.Unmarshal(w.Body.Bytes(), &body)
	value, _ := body[member].(string)
	return value
}

func TestAudit_every_change_of_access_or_receiver_is_one_line_without_a_secret(t *testing.T) {
	t.Parallel()
	for caller, hangUp := range map[string]bool{"the caller waits": false, "the caller hangs up": true} {
		t.Run(caller, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.hangUp = hangUp
			r.everyChange()
		})
	}
}

func (r *rig) everyChange() {
	r.Helper()
	t := r.TB
	created, err := r.app.Suppliers.CreateSupplier(t.Context(), supplierauth.Supplier{Name: "Acme",
		AccessTTL: supplierauth.DefaultAccessTTL, RefreshTTL: supplierauth.DefaultRefreshTTL,
		Scopes: supplierauth.DefaultScopes()})
	if err != nil {
		t.Fatal(err)
	}
	supplier := created.Supplier.ID
	r.secrets = append(r.secrets, created.APIKey, created.WebhookSecret, "hidden-in-the-path")
	tokens := r.call(r.engine, "POST /api/external-auth/token", "", "", 0, "X-Api-Key", created.APIKey)
	access, refresh := text(tokens, "AccessToken"), text(tokens, "RefreshToken")
	r.secrets = append(r.secrets, access, refresh)

	r.asSupplier(supplier, []string{"Authorization", "Bearer " + access}, "/api/webhook-receiver",
		"/api/webhook-deliveries")
	link := text(r.call(r.engine, "POST /api/portal-sessions", "", "", 1, "Authorization", "Bearer "+access), "url")
	r.asPortal(supplier, link, "Authorization", "Bearer "+access)
	r.asOperator(supplier)
	r.call(r.engine, "POST /api/external-auth/revoke", "", `{"refreshToken":"`+refresh+`"}`, 0) // ended with its supplier
	tokens = r.call(r.engine, "POST /api/external-auth/token", "", "", 0, "X-Api-Key", created.APIKey)
	r.call(r.engine, "POST /api/external-auth/revoke", "", `{"refreshToken":"`+text(tokens, "RefreshToken")+`"}`, 1)
	r.call(r.engine, "POST /api/external-auth/revoke", "", `{}`, 0)
	r.call(r.engine, "PUT /api/webhook-receiver", "", `{}`, 0) // refused

	site := gin.New()
	service, err := console.New(console.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	r.app.consoleRoutes(site, service)
	for _, route := range append(r.engine.Routes(), site.Routes()...) {
		name := route.Method + " " + route.Path
		if route.Method != http.MethodGet && !r.calls[name] && !slices.Contains(unaudited(), name) {
			t.Errorf("%s is neither audited nor named as changing no supplier's access or receiver", name)
		}
	}
}

// asSupplier changes the receiver by the API.
func (r *rig) asSupplier(supplier string, credentials []string, receiver, deliveries string) {
	r.Helper()
	change := func(route, path, body string) *httptest.ResponseRecorder {
		r.Helper()
		return r.call(r.engine, route, path, body, 1, credentials...)
	}
	change("PUT "+receiver, "", `{"url":"http://127.0.0.1:1/hidden-in-the-path"}`)
	rotated := change("POST "+receiver+"/rotate-secret", "", `{"overlap":"1h"}`)
	r.secrets = append(r.secrets, text(rotated, "webhook_secret"))
	change("POST "+receiver+"/pause", "", "")
	change("POST "+receiver+"/resume", "", "")
	change("POST "+deliveries+"/redeliver", "", `{"status":"dead","since":"2026-01-01T00:00:00Z"}`)
	if line := r.log.String(); !strings.Contains(line, `"since":"2026-01-01`) || strings.Contains(line, `"until"`) {
		r.Errorf("a recovery without an end has one: %s", line)
	}
	change("POST "+deliveries+"/redeliver", "",
		`{"status":"dead","since":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z"}`)
	if line := r.log.String(); !strings.Contains(line, `"until":"2026-01-02`) {
		r.Errorf("a recovery's end is not in its line: %s", line)
	}
	change("POST "+deliveries+"/:id/redeliver", deliveries+"/"+r.deadDelivery(supplier)+"/redeliver", "")
	change("DELETE "+receiver, "", "")
}

// asPortal does the same in the portal.
func (r *rig) asPortal(supplier, link string, credentials ...string) {
	r.Helper()
	u, err := url.Parse(link)
	if err != nil {
		r.Fatal(err)
	}
	r.secrets = append(r.secrets, u.Query().Get("token"))
	cookie := ""
	page := func(route, path string, form url.Values, lines int) {
		r.Helper()
		w := r.call(r.engine, route, path, form.Encode(), lines, "Content-Type", "application/x-www-form-urlencoded",
			"X-Page-Request", "1", "Cookie", cookie, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
		for _, c := range w.Result().Cookies() {
			if c.Value != supplier {
				cookie = c.Name + "=" + c.Value
				r.secrets = append(r.secrets, c.Value)
			}
		}
	}
	r.call(r.engine, "GET /portal/sign-in", "/portal/sign-in?lang=pt", "", 0) // it only switches the language
	page("GET /portal/sign-in", u.RequestURI(), nil, 1)
	again := text(r.call(r.engine, "POST /api/portal-sessions", "", "", 1, credentials...), "url")
	u, _ = url.Parse(again)
	r.secrets = append(r.secrets, u.Query().Get("token"))
	page("POST /portal/sign-in", "", url.Values{"token": {u.Query().Get("token")}}, 1)
	page("POST /portal/receiver", "", url.Values{"url": {"http://127.0.0.1:1/hidden-in-the-path"}}, 1)
	page("POST /portal/receiver/rotate-secret", "", url.Values{"overlap": {"1h"}}, 1)
	page("POST /portal/receiver/pause", "", nil, 1)
	page("POST /portal/receiver/resume", "", nil, 1)
	page("POST /portal/deliveries/redeliver", "", url.Values{"status": {"dead"}, "since": {"2026-01-01T00:00:00Z"}}, 1)
	page("POST /portal/deliveries/:id/redeliver", "/portal/deliveries/"+r.deadDelivery(supplier)+"/redeliver", nil, 1)
	page("POST /portal/receiver/remove", "", nil, 1)
	page("POST /portal/sign-out", "", nil, 1)
}

// asOperator acts in the console, at first without the token.
func (r *rig) asOperator(supplier string) {
	r.Helper()
	act := func(route string, form url.Values, lines int, headers ...string) *httptest.ResponseRecorder {
		r.Helper()
		return r.call(r.console, "POST "+console.Base+route, "", form.Encode(), lines,
			append([]string{"Content-Type", "application/x-www-form-urlencoded", "X-Page-Request", "1"}, headers...)...)
	}
	act("/suppliers/deactivate", url.Values{"id": {supplier}}, 0)
	w := act("/token", url.Values{"operator_token": {operatorsToken}}, 1)
	cookie := w.Result().Cookies()[0].Name + "=" + w.Result().Cookies()[0].Value
	r.secrets = append(r.secrets, w.Result().Cookies()[0].Value)
	act("/suppliers/deactivate", url.Values{"id": {supplier}}, 0, "Cookie", cookie) // asks first
	act("/suppliers/deactivate", url.Values{"id": {supplier}, "confirm": {"1"}}, 1, "Cookie", cookie)
	bearer := []string{"Authorization", "Bearer " + operatorsToken}
	act("/suppliers/activate", url.Values{"id": {supplier}}, 1, bearer...)
	act("/receivers/pause", url.Values{"id": {supplier}}, 0, bearer...) // refused: it has no receiver
	if err := r.app.Receivers.SetURL(r.Context(), supplier, "http://127.0.0.1:1/hidden-in-the-path"); err != nil {
		r.Fatal(err)
	}
	act("/receivers/pause", url.Values{"id": {supplier, "sup_unknown"}}, 1, bearer...)
	if strings.Contains(r.log.String(), "sup_unknown") {
		r.Errorf("the line names a supplier that was left as it is: %s", r.log)
	}
	act("/receivers/resume", url.Values{"id": {supplier}}, 1, bearer...)
	act("/deliveries/redeliver", url.Values{"id": {r.deadDelivery(supplier)}}, 1, bearer...)
	act("/requests/reopen", url.Values{"id": {r.failedRequest(supplier)}}, 1, bearer...)
	shown := func(w *httptest.ResponseRecorder) { // secrets that a page shows once are in no line
		secret := regexp.MustCompile(`hub_sk_\w+|whsec_[\w+/=]+|token=[\w-]+`)
		r.secrets = append(r.secrets, secret.FindAllString(w.Body.String(), -1)...)
	}
	shown(act("/suppliers/create", url.Values{"name": {"Borges"}}, 1, bearer...))
	shown(act("/suppliers/rotate-key", url.Values{"id": {supplier}, "overlap": {"1h"}}, 1, bearer...))
	shown(act("/suppliers/rotate-secret", url.Values{"id": {supplier}, "overlap": {"1h"}}, 1, bearer...))
	shown(act("/suppliers/portal-link", url.Values{"id": {supplier}}, 1, bearer...))
	act("/suppliers/concurrency", url.Values{"id": {supplier}, "receiver_concurrency": {"7"}}, 1, bearer...)
	act("/suppliers/concurrency", url.Values{"id": {supplier}, "receiver_concurrency": {"0"}}, 0, bearer...) // refused
	act("/rates/set", url.Values{"service": {"night"}, "carrier": {"Noite"}, "from": {"2026-01-01"}, "base-cents": {"1"},
		"per-kg-cents": {"1"}, "minimum-cents": {"1"}, "cubage": {"167"}, "max-side": {"120"}, "max-weight": {"30"},
		"transit-days": {"1"}}, 1, bearer...)
	act("/rates/remove", url.Values{"id": {"night"}}, 1, bearer...)
	act("/scoreboard/set", url.Values{"key": {"scoreboard.daily_quota"}, "value": {"90"}}, 1, bearer...)
	act("/sign-out", nil, 1, "Cookie", cookie)
	act("/sign-out", nil, 0, "Cookie", cookie) // it has ended
	act("/sign-out", nil, 0)
}

// deadDelivery makes a dead delivery to the supplier's receiver and returns its id.
func (r *rig) deadDelivery(supplier string) string {
	r.Helper()
	id := fmt.Sprintf("msg_%d", 1000+len(r.calls))
	if err := r.app.db.From(r.Context()).Exec(`
		INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at) VALUES (?, ?, 1, ?, ?, 1, 'dead', 1, 1, 0, 1, 1)`,
		id, 1000+len(r.calls), supplier, supplier).Error; err != nil {
		r.Fatal(err)
	}
	return id
}

// failedRequest makes a failed request of the supplier and returns how the console names it.
func (r *rig) failedRequest(supplier string) string {
	r.Helper()
	if err := r.app.db.From(r.Context()).Exec(`
		INSERT INTO material_requests (uid, id, created_at, updated_at, shard, supplier_id, status, shop_code, digest,
			trace_id, body) VALUES (1, 1, 1, 1, 0, ?, 'failed', '', '', '', '')`, supplier).Error; err != nil {
		r.Fatal(err)
	}
	return supplier + "/1"
}
