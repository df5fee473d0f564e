package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const operatorToken = "the-operators-token"

// TestConsole holds the first paragraph of chapter 10.
func TestConsole(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{LeastRights: stack == apptest.Production, Env: map[string]string{
				"OPERATOR_TOKEN": operatorToken, "ADMIN_HOSTS": "hub.internal,other", "WEBHOOK_RETRY_SCHEDULE": "100ms",
				"WEBHOOK_TIMEOUT": "2s",
			}})
			consoleRules(t, h)
			consoleActions(t, h)
		})
	}
}

// atConsole calls a path of the console; body nil: GET, else a form. headers are names and values in turn.
func atConsole(t *testing.T, p *apptest.Process, path string, body url.Values, headers ...string) apptest.Answer {
	t.Helper()
	method, form := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, form = http.MethodPost, strings.NewReader(body.Encode())
	}
	r, err := http.NewRequestWithContext(t.Context(), method, p.AdminURL(path), form)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := http.DefaultTransport.RoundTrip(r) // redirects are answers
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return apptest.Answer{Status: response.StatusCode, Header: response.Header, Body: text}
}

// consoleList walks a list to its end: SUPPLIER/ID of each.
func consoleList(t *testing.T, h *apptest.Hub, list string) (keys []string) {
	t.Helper()
	separator := map[bool]string{true: "&", false: "?"}[strings.Contains(list, "?")]
	for cursor, pages := "", 0; pages < 50; pages++ {
		page := apptest.Decode[struct {
			Items []struct {
				ID         any    `json:"id"`
				SupplierID string `json:"supplier_id"`
			}
			Next string `json:"next_cursor"`
		}](t, atConsole(t, h.APIs[0], "/console/api/"+list+separator+"cursor="+cursor, nil))
		for _, item := range page.Items {
			keys = append(keys, fmt.Sprintf("%s/%v", item.SupplierID, item.ID))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	return keys
}

type overviewFigures struct {
	Figures []struct {
		Name   string
		Value  float64
		Values []float64
	}
}

func figure(t *testing.T, p *apptest.Process, name string) (value float64, hour []float64) {
	t.Helper()
	for _, f := range apptest.Decode[overviewFigures](t, atConsole(t, p, "/console/api/overview", nil)).Figures {
		if f.Name == name {
			return f.Value, f.Values
		}
	}
	t.Fatalf("no figure %s", name)
	return 0, nil
}

func consoleRules(t *testing.T, h *apptest.Hub) {
	rule(t, "the operator listeners answer for an address, a loopback name and ADMIN_HOSTS, "+
		"any other Host is an empty 403", func(t *testing.T) {
		for _, p := range slices.Concat(h.APIs, h.Workers) {
			for host, status := range map[string]int{
				"127.0.0.1:9": 200, "localhost": 200, "[::1]:1": 200, "10.1.2.3": 200, "hub.internal:9090": 200,
				"HUB.internal": 200, "other": 200,
				"evil.example": 403, "hub.internal.evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
			} {
				a := atConsole(t, p, "/livez", nil, "Host", host)
				if a.Status != status || status == 403 && len(a.Body) != 0 || a.Header.Get("X-Request-Id") == "" {
					t.Errorf("Host %s: %d %v %q", host, a.Status, a.Header, a.Body)
				}
			}
			for _, path := range []string{"/readyz", "/metrics", "/backlog", "/", "/nowhere", "/a%2fb", "/console"} {
				if ids := atConsole(t, p, path, nil, "X-Request-Id", "mine").Header.Values("X-Request-Id"); len(ids) != 1 ||
					ids[0] != "mine" {
					t.Errorf("%s has the ids %q", path, ids)
				}
			}
			for _, path := range []string{"/console", "/console/api/overview", "/metrics"} {
				if a := atConsole(t, p, path, nil, "Host", "evil.example"); a.Status != 403 || len(a.Body) != 0 {
					t.Errorf("%s: %d", path, a.Status)
				}
			}
		}
	})
	rule(t, "every page and the same as JSON is read without a credential", func(t *testing.T) {
		for _, page := range []string{"", "/rates", "/requests", "/deliveries", "/receivers", "/suppliers", "/scoreboard",
			"/trackers", "/search", "/requests?status=failed", "/deliveries?status=pending"} {
			a := atConsole(t, h.APIs[0], "/console"+page, nil)
			if a.Status != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") ||
				!strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s: %d %v", page, a.Status, a.Header)
			}
			if page == "" {
				page = "/overview"
			}
			if a := atConsole(t, h.APIs[0], "/console/api"+page, nil); a.Status != 200 ||
				!strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
				t.Errorf("/api%s: %d %s", page, a.Status, a.Body)
			}
		}
		for path, named := range map[string]string{"/deliveries?status=lost": "pending, delivered, dead or failed",
			"/requests?status=lost": "enqueued, estimated, selected or failed",
			"/receivers?state=ill":  "failing, paused or active",
			"/requests?cursor=x":    "The cursor is not of this list",
			"/deliveries?cursor=x":  "The cursor is not of this list",
			"/requests?status=%zz":  "The query string could not be read", "/requests?a=1;b=2&lang=pt": "%3B"} {
			for _, base := range []string{"/console", "/console/api"} {
				if a := atConsole(t, h.APIs[0], base+path, nil); a.Status != 400 || !strings.Contains(string(a.Body), named) {
					t.Errorf("%s%s, which is not offered: %d %s", base, path, a.Status, a.Body)
				}
			}
		}
	})
	rule(t, "enqueued requests are listed, whether they wait for the estimation or for the own endpoint",
		func(t *testing.T) {
			s, db := h.Supplier(t), openDatabase(t, h)
			ids := map[string]int64{}
			for _, waitsFor := range []string{"estimation", "own endpoint"} {
				ids[waitsFor] = submit(t, s, nil)
				becomes(t, s, ids[waitsFor], "estimated")
			}
			settled(t, db, s)
			later := time.Now().Add(time.Hour).UnixMicro()
			for _, statement := range []string{
				fmt.Sprintf(`UPDATE material_requests SET status = 'enqueued', due_at = %d WHERE supplier_id = '%s' AND id = %d`,
					later, s.ID, ids["estimation"]),
				fmt.Sprintf(`UPDATE material_requests SET status = 'enqueued' WHERE supplier_id = '%s' AND id = %d`, s.ID,
					ids["own endpoint"]),
				fmt.Sprintf(`UPDATE webhook_deliveries SET status = 'pending', next_attempt_at = %d
					WHERE destination = 'own' AND supplier_id = '%s' AND request_id = %d`,
					later, s.ID, ids["own endpoint"]),
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			for _, filter := range []string{"", "&supplier_id=" + s.ID} {
				for waitsFor, id := range ids {
					wait.Until(t, "the one that waits for its "+waitsFor+" is listed, filter "+filter, func() bool {
						return slices.Contains(consoleList(t, h, "requests?status=enqueued"+filter), fmt.Sprint(s.ID, "/", id))
					})
				}
			}
			for _, statement := range []string{ // they come to their end
				`UPDATE material_requests SET status = 'estimated', due_at = NULL WHERE supplier_id = '` + s.ID + `'`,
				`UPDATE webhook_deliveries SET status = 'delivered' WHERE supplier_id = '` + s.ID + `'`,
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
		})
	rule(t, "figures of the last hour are summed over all replicas", func(t *testing.T) {
		receiver, _ := switchable(t, 200)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		for i := range 4 {
			want(t, h.DoAt(t, i%len(h.APIs), http.MethodPost, requests, request(nextID(), nil), "Authorization", "Bearer "+
				s.AccessToken()), 201)
		}
		for _, p := range h.APIs {
			for _, name := range []string{"Accepted per second", "Delivered per second"} {
				wait.Until(t, name+" counts what all processes did", func() bool {
					_, hour := figure(t, p, name)
					sum := 0.0
					for _, v := range hour {
						sum += v * 10
					}
					return sum >= 3.9
				})
			}
			for _, name := range []string{"Backlog", "Oldest waiting", "Waiting deliveries", "Dead deliveries",
				"Failing receivers", "Paused receivers"} {
				if _, hour := figure(t, p, name); len(hour) != 360 {
					t.Errorf("%s has %d points", name, len(hour))
				}
			}
		}
	})
	rule(t, "lists go on by a cursor through every request and delivery, each once", func(t *testing.T) {
		for range 2 {
			s := h.Supplier(t)
			for range 40 {
				becomes(t, s, submit(t, s, nil), "estimated")
			}
		}
		for _, list := range []string{"requests", "deliveries"} {
			seen := map[string]bool{}
			for _, key := range consoleList(t, h, list) {
				if seen[key] {
					t.Fatalf("%s: %s is listed twice", list, key)
				}
				seen[key] = true
			}
			if len(seen) < 80 { // a page has 50
				t.Errorf("%s: %d are listed", list, len(seen))
			}
		}
	})
	rule(t, "Search finds by request id, delivery id, supplier name or id and X-Request-Id", func(t *testing.T) {
		s := h.Supplier(t)
		id, trace := nextID(), fmt.Sprint("trace-", nextID())
		want(t, s.Do(t, http.MethodPost, requests, request(id, nil), "X-Request-Id", trace), 201)
		becomes(t, s, id, "estimated")
		story := fmt.Sprintf("/console/requests/%s/%d", s.ID, id)
		delivery := apptest.Decode[struct{ Deliveries []struct{ ID string } }](t,
			atConsole(t, h.APIs[0], strings.Replace(story, "/console", "/console/api", 1), nil)).Deliveries[0].ID
		for text, target := range map[string]string{fmt.Sprint(id): story, delivery: "/console/deliveries/" + delivery,
			trace: story} {
			a := atConsole(t, h.APIs[0], "/console/search?q="+text, nil)
			if a.Header.Get("Location") != target {
				t.Errorf("%s points at %d %q, want %s", text, a.Status, a.Header.Get("Location"), target)
			}
		}
		for _, text := range []string{s.ID, url.QueryEscape(t.Name())} {
			if a := atConsole(t, h.APIs[0], "/console/api/search?q="+text, nil); !strings.Contains(string(a.Body), s.ID) {
				t.Errorf("%s finds %s", text, a.Body)
			}
			a := atConsole(t, h.APIs[0], "/console/search?q="+text, nil)
			if a.Header.Get("Location") != "/console/suppliers/"+s.ID {
				t.Errorf("%s points at %d %q", text, a.Status, a.Header.Get("Location"))
			}
		}
		if page := atConsole(t, h.APIs[0], story, nil); !strings.Contains(string(page.Body), trace) ||
			!strings.Contains(string(page.Body), delivery) {
			t.Errorf("the story lacks its X-Request-Id or its delivery")
		}
		if _, err := openDatabase(t, h).ExecContext(t.Context(), // as before its estimation
			`DELETE FROM webhook_events WHERE trace_id = '`+trace+`'`); err != nil {
			t.Fatal(err)
		}
		if a := atConsole(t, h.APIs[0], "/console/search?q="+trace, nil); a.Header.Get("Location") != story {
			t.Errorf("without an event %s points at %d %q, want %s", trace, a.Status, a.Header.Get("Location"), story)
		}
	})
}

func consoleActions(t *testing.T, h *apptest.Hub) {
	page := []string{"X-Page-Request", "1", "Sec-Fetch-Site", "same-origin"}
	act := func(t *testing.T, path string, values url.Values, headers ...string) apptest.Answer {
		t.Helper()
		return atConsole(t, h.APIs[0], "/console"+path, values, headers...)
	}
	bearer := []string{"Authorization", "Bearer " + operatorToken}
	rule(t, "an action without the token or with a wrong one is 401, and the token is kept for the browser's session",
		func(t *testing.T) {
			for _, path := range []string{"/deliveries/redeliver", "/requests/reopen", "/receivers/pause", "/receivers/resume",
				"/suppliers/activate", "/suppliers/deactivate", "/suppliers/portal-link", "/suppliers/create",
				"/suppliers/rotate-key", "/suppliers/rotate-secret", "/suppliers/concurrency", "/rates/set", "/rates/remove",
				"/scoreboard/set"} {
				for _, headers := range [][]string{nil, page, {"Authorization", "Bearer wrong"},
					{"Cookie", "supplyhub_operator=wrong"}} {
					if a := act(t, path, url.Values{"id": {"x"}}, headers...); a.Status != 401 {
						t.Errorf("%s with %v: %d", path, headers, a.Status)
					}
				}
			}
			if a := act(t, "/token", url.Values{"operator_token": {"wrong"}}, page...); a.Status != 401 ||
				a.Header.Get("Set-Cookie") != "" {
				t.Errorf("a wrong token: %d", a.Status)
			}
			a := act(t, "/token", url.Values{"operator_token": {operatorToken}}, page...)
			cookie := a.Header.Get("Set-Cookie")
			if a.Status != 200 || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") ||
				strings.Contains(cookie, "Max-Age") || strings.Contains(cookie, operatorToken) {
				t.Fatalf("%d %q", a.Status, cookie)
			}
			cookie, _, _ = strings.Cut(cookie, ";")
			if a := act(t, "/suppliers/activate", url.Values{"id": {"sup_unknown"}}, "Cookie", cookie); a.Status != 403 {
				t.Errorf("without the page's header: %d", a.Status)
			}
			for i := range h.APIs { // any replica knows the session
				if a := atConsole(t, h.APIs[i], "/console/suppliers/activate", url.Values{"id": {"sup_unknown"}},
					append(page, "Cookie", cookie)...); a.Status != 404 {
					t.Errorf("api %d: %d %s", i, a.Status, a.Body)
				}
			}
			if a := act(t, "/suppliers/deactivate", url.Values{"id": {"a", "b", "c"}},
				append(page, "Cookie", cookie)...); a.Status != 200 ||
				!strings.Contains(string(a.Body), "Deactivate 3 suppliers?") {
				t.Errorf("a bulk action does not ask: %d %s", a.Status, a.Body)
			}
		})
	rule(t, "Sign out ends the session on every replica, also for a copied cookie; another session stays",
		func(t *testing.T) {
			signIn := func() string {
				a := act(t, "/token", url.Values{"operator_token": {operatorToken}}, page...)
				want(t, a, 200)
				cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
				return cookie
			}
			status := func(api int, cookie string) int {
				return atConsole(t, h.APIs[api], "/console/suppliers/activate", url.Values{"id": {"sup_unknown"}},
					append(page, "Cookie", cookie)...).Status
			}
			copied, other := signIn(), signIn()
			want(t, act(t, "/sign-out", url.Values{}, append(page, "Cookie", copied)...), 200)
			for i := range h.APIs {
				if ended, lives := status(i, copied), status(i, other); ended != 401 || lives != 404 {
					t.Errorf("api %d: %d with the copied cookie, %d with the other one", i, ended, lives)
				}
			}
		})
	rule(t, "pages of other sites reach nothing but the console's pages, and have no token tried", func(t *testing.T) {
		for _, p := range append(h.APIs, h.Workers...) {
			for _, path := range []string{"/livez", "/metrics", "/debug/pprof/heap?gc=1", "/console/api/overview"} {
				for _, site := range []string{"cross-site", "same-site"} {
					wantEmpty(t, atConsole(t, p, path, nil, "Sec-Fetch-Site", site), 403)
				}
			}
		}
		want(t, act(t, "/suppliers", nil, "Sec-Fetch-Site", "cross-site"), 200)
		wantEmpty(t, act(t, "/token", url.Values{"operator_token": {operatorToken}}, "X-Page-Request", "1", "Sec-Fetch-Site",
			"cross-site"), 403)
		if a := act(t, "/token", url.Values{"operator_token": {operatorToken}}); a.Status != 403 {
			t.Errorf("a token that the page has not sent: %d", a.Status)
		}
		for _, path := range []string{`/..%2f%5cevil.example%2flogin`, `/suppliers/..%2f..%2f%5cevil.example`,
			`/\evil.example`} {
			if a := act(t, path+"?lang=pt", nil); a.Status != 404 && a.Status != 400 || a.Header.Get("Location") != "" {
				t.Errorf("%s: %d to %q", path, a.Status, a.Header.Get("Location"))
			}
		}
	})
	rule(t, "Redeliver sends dead deliveries again, and one that cannot be sent does not stop the rest",
		func(t *testing.T) {
			receiver, status := switchable(t, 503)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			submit(t, s, nil)
			submit(t, s, nil)
			dead := reaches(t, s, "dead", 2)
			for _, path := range []string{"/suppliers/" + s.ID, "/deliveries/" + dead[0].ID} {
				wait.Until(t, path+" says in Portuguese why it failed", func() bool {
					a := atConsole(t, h.APIs[0], "/console"+path, nil, "Accept-Language", "pt")
					return strings.Contains(string(a.Body), "não conseguiu receber a chamada: o log dele diz por quê")
				})
			}
			status.Store(200)
			values := url.Values{"id": {"msg_unknown", dead[0].ID, dead[1].ID}}
			if a := act(t, "/deliveries/redeliver", values, bearer...); a.Status != 200 ||
				!strings.Contains(string(a.Body), "2 deliveries will be sent again. 1 was left as it is") {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			reaches(t, s, "delivered", 2)
		})
	rule(t, "Pause and Resume are the operator's own", func(t *testing.T) {
		receiver, _ := switchable(t, 200)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		want(t, act(t, "/receivers/pause", url.Values{"id": {s.ID}}, bearer...), 200)
		if a := atConsole(t, h.APIs[0], "/console/api/receivers?state=paused&supplier_id="+s.ID,
			nil); !strings.Contains(string(a.Body), `"paused_by":"operator"`) {
			t.Errorf("%s", a.Body)
		}
		submit(t, s, nil)
		reaches(t, s, "pending", 1)
		want(t, act(t, "/receivers/resume", url.Values{"id": {s.ID}}, bearer...), 200)
		reaches(t, s, "delivered", 1)
	})
	rule(t, "a receiver needs attention while its supplier is active and has an address", func(t *testing.T) {
		receiver, _ := switchable(t, 200)
		for name, change := range map[string]func(*apptest.Supplier){
			"deactivated": func(s *apptest.Supplier) {
				want(t, act(t, "/suppliers/deactivate", url.Values{"id": {s.ID}}, bearer...), 200)
			},
			"without an address": func(s *apptest.Supplier) { want(t, s.Do(t, http.MethodDelete, receiverPath, nil), 204) },
		} {
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			key := s.ID + "/<nil>"
			want(t, act(t, "/receivers/pause", url.Values{"id": {s.ID}}, bearer...), 200)
			if !slices.Contains(consoleList(t, h, "receivers?state=paused"), key) {
				t.Errorf("%s: it is not listed before", name)
			}
			change(s) // what is shown is kept for two seconds
			for state, listed := range map[string]bool{"?state=paused": false, "?state=active": false, "": true,
				"?state=paused&supplier_id=" + s.ID: true} {
				wait.Until(t, fmt.Sprintf("%s: listed among receivers%s: %v", name, state, listed), func() bool {
					return slices.Contains(consoleList(t, h, "receivers"+state), key) == listed
				})
			}
		}
	})
	rule(t, "Pause and Resume change only suppliers that exist and have a receiver, and count no other",
		func(t *testing.T) { onlyReceivers(t, h, act, bearer) })
	rule(t, "Deactivate refuses a supplier's keys, Activate lets them in again", func(t *testing.T) {
		s := h.Supplier(t)
		want(t, act(t, "/suppliers/deactivate", url.Values{"id": {s.ID}}, bearer...), 200)
		want(t, h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", s.APIKey), 401)
		want(t, act(t, "/suppliers/activate", url.Values{"id": {s.ID}}, bearer...), 200)
		s.Token(t)
	})
	rule(t, "a request that no service takes has the reason of each", func(t *testing.T) {
		s := h.Supplier(t)
		r := becomes(t, s, submit(t, s, object{"materials": []object{item(object{"width": 1000000})}}), "estimated")
		page := string(atConsole(t, h.APIs[0], fmt.Sprint("/console/requests/", s.ID, "/", r.ID), nil).Body)
		for _, u := range r.Unavailable {
			if reason := fmt.Sprint(u["reason"]); reason == "" || !strings.Contains(page, reason) {
				t.Errorf("the page does not say %q", reason)
			}
		}
		if len(r.Unavailable) == 0 || strings.Contains(page, "None yet.") {
			t.Errorf("%+v: %s", r, page)
		}
	})
	rule(t, "Reopen estimates a failed request again, and refusals are in the reader's language", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, nil)
		becomes(t, s, id, "estimated")
		for _, c := range []struct {
			path   string
			values url.Values
			status int
			says   string
		}{
			{"/requests/reopen", url.Values{"id": {fmt.Sprint(s.ID, "/", id)}}, 409, "A solicitação não está com falha."},
			{"/deliveries/redeliver", url.Values{"id": {"msg_x"}}, 404, "Não existe a entrega msg_x."},
			{"/scoreboard/set", url.Values{"key": {"scoreboard.match_ids"}, "value": {"a,,b"}}, 400,
				"deve ter de 1 a 200 ids de jogos, só números, separados por vírgulas."},
			{"/deliveries/redeliver", url.Values{"id": {strings.Repeat("a", 256<<10)}}, 413,
				"O corpo da requisição passa de 256 KiB."},
		} {
			a := act(t, c.path, c.values, append([]string{"Accept-Language", "pt"}, bearer...)...)
			if a.Status != c.status || !strings.Contains(string(a.Body), c.says) {
				t.Errorf("%s is refused with %d %s, not with %d %s", c.path, a.Status, a.Body, c.status, c.says)
			}
		}
		if _, err := openDatabase(t, h).ExecContext(t.Context(),
			`UPDATE material_requests SET status = 'failed',
				failure = 'The delivery estimates of this request could not be computed.' WHERE supplier_id = '`+s.ID+
				`'`); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"?supplier_id=" + s.ID, fmt.Sprint("/", s.ID, "/", id)} {
			if a := atConsole(t, h.APIs[0], "/console/requests"+path, nil, "Accept-Language", "pt"); !strings.Contains(
				string(a.Body), "As estimativas de entrega desta solicitação não puderam ser calculadas.") {
				t.Errorf("%s does not say in Portuguese why it failed: %s", path, a.Body)
			}
		}
		if a := atConsole(t, h.APIs[0], "/console/api/requests?status=failed&supplier_id="+s.ID,
			nil); !strings.Contains(string(a.Body), fmt.Sprint(id)) {
			t.Errorf("the failed request is not listed: %s", a.Body)
		}
		want(t, act(t, "/requests/reopen", url.Values{"id": {fmt.Sprint(s.ID, "/", id)}}, bearer...), 200)
		becomes(t, s, id, "estimated")
	})
}

func onlyReceivers(t *testing.T, h *apptest.Hub,
	act func(*testing.T, string, url.Values, ...string) apptest.Answer, bearer []string) {
	receiver, _ := switchable(t, 200)
	s, none := h.Supplier(t, "--webhook-url", receiver.URL), h.Supplier(t)
	long := strings.Repeat("a", 5000)
	for action, done := range map[string]string{"pause": "1 receiver is paused", "resume": "1 receiver is resumed"} {
		path := "/receivers/" + action
		for id, status := range map[string]int{"sup_nosuch": 404, "": 404, long: 404, none.ID: 409} {
			if a := act(t, path, url.Values{"id": {id}}, bearer...); a.Status != status {
				t.Errorf("%s of %.20q: %d %s", action, id, a.Status, a.Body)
			}
		}
		a := act(t, path, url.Values{"id": {"sup_nosuch", s.ID, none.ID, s.ID}}, bearer...)
		if text := string(a.Body); a.Status != 200 || !strings.Contains(text, done) ||
			!strings.Contains(text, "2 were left as they are") {
			t.Errorf("%s of one receiver and two that are none: %d %s", action, a.Status, text)
		}
	}
	var rows int
	if err := openDatabase(t, h).QueryRowContext(t.Context(), `SELECT count(*) FROM webhook_receivers
		WHERE supplier_id IN ('sup_nosuch', '', '`+long+`', '`+none.ID+`')`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of receivers that do not exist are stored: %v", rows, err)
	}
	want(t, none.Do(t, http.MethodPut, receiverPath, object{"url": receiver.URL}), 200)
	if got := receiverOf(t, none); got.State != "active" {
		t.Errorf("a supplier is paused before it has a receiver: %+v", got)
	}
}

func TestConsole_without_a_token(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	if a := atConsole(t, h.APIs[0], "/console/suppliers/deactivate", url.Values{"id": {"x"}}); a.Status != 403 {
		t.Errorf("actions are on: %d", a.Status)
	}
	if a := atConsole(t, h.APIs[0], "/console", nil); a.Status != 200 {
		t.Errorf("reading: %d", a.Status)
	}
}
